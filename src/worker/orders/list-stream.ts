/** A client took nothing of a list for too long. */
export class StalledReaderError extends Error {
  override readonly name = "StalledReaderError";

  constructor(stallMs: number) {
    super(`The client took nothing of the list for ${stallMs / 1_000} seconds.`);
  }
}

interface StreamOptions {
  /** The stream breaks off if nobody reads for this long. */
  readonly stallMs: number;
  /** Called when the client takes a piece. */
  readonly onProgress: () => void;
  /** Called with the error that broke the stream off, or without one if it was sent or the client left. */
  readonly onEnd: (error?: unknown) => void;
}

/** A stream of these pieces, which produces a piece only when somebody reads. */
export function listStream(
  pieces: AsyncGenerator<Uint8Array, void>,
  { stallMs, onProgress, onEnd }: StreamOptions,
): ReadableStream<Uint8Array> {
  let stopTimer = () => {};
  let hasLeft = false;
  const source: UnderlyingSource<Uint8Array> = {
    async pull(controller) {
      stopTimer();
      onProgress();
      try {
        const { done, value } = await pieces.next();
        if (hasLeft) return;
        if (done) {
          controller.close();
          onEnd();
          return;
        }
        controller.enqueue(value);
      } catch (error) {
        if (hasLeft) return;
        controller.error(error);
        onEnd(error);
        return;
      }
      const timer = setTimeout(() => {
        const error = new StalledReaderError(stallMs);
        controller.error(error);
        onEnd(error);
        void pieces.return();
      }, stallMs);
      stopTimer = () => clearTimeout(timer);
    },
    async cancel() {
      hasLeft = true;
      stopTimer();
      onEnd();
      await pieces.return();
    },
  };
  // Reads nothing ahead: a piece takes memory until it is sent.
  return new ReadableStream(source, { highWaterMark: 0 });
}
