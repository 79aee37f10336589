interface LimitsPictureProps {
  readonly graceSeconds: number;
  /** The length of the first ban, in seconds. */
  readonly banSeconds: number;
}

/**
 * A picture of two clients with the same limit. One client waits, and the other client is banned.
 */
export function LimitsPicture({ graceSeconds, banSeconds }: LimitsPictureProps) {
  return (
    <svg
      class="picture"
      viewBox="0 0 400 372"
      role="img"
      aria-labelledby="picture-title picture-desc"
    >
      <title id="picture-title">Two clients and the same limit</title>
      <desc id="picture-desc">
        Above, a client uses up its minute, gets a 429 with Retry-After 40, waits until the window
        ends, and is admitted again. Below, a client goes on sending after the 429. Refusals in the
        first {graceSeconds} seconds are free. Later refusals become strikes, and the client is
        banned for {banSeconds} seconds.
      </desc>
      <g class="lane">
        <text class="head" x="10" y="20">
          Waits for Retry-After
        </text>
        <rect class="window" x="10" y="52" width="190" height="46" rx="6" />
        <rect class="window" x="266" y="52" width="124" height="46" rx="6" />
        <text class="small" x="14" y="46">
          window: 60 seconds
        </text>
        <text class="small" x="266" y="46">
          a new window
        </text>
        <g class="in">
          <circle cx="22" cy="75" r="5" />
          <circle cx="36" cy="75" r="5" />
          <circle cx="50" cy="75" r="5" />
          <circle cx="64" cy="75" r="5" />
          <circle cx="78" cy="75" r="5" />
        </g>
        <path class="out" d="m91 70 10 10m0-10-10 10" />
        <path class="wait" d="M108 75H192" />
        <path class="arrow" d="m190 70 8 5-8 5z" />
        <path class="tie" d="M96 84v28" />
        <text x="56" y="128">
          <tspan class="bad">429</tspan> Retry-After: 40
        </text>
        <path class="tie" d="M200 52v60" />
        <text class="small" x="206" y="128">
          the full limit is back
        </text>
        <g class="in">
          <circle cx="278" cy="75" r="5" />
          <circle cx="292" cy="75" r="5" />
          <circle cx="306" cy="75" r="5" />
          <circle cx="320" cy="75" r="5" />
        </g>
        <path class="gap" d="M206 75h54" />
      </g>
      <path class="rule" d="M10 152H390" />
      <g class="lane">
        <text class="head" x="10" y="184">
          Keeps sending
        </text>
        <rect class="window" x="10" y="216" width="190" height="46" rx="6" />
        <text class="small" x="14" y="210">
          window: 60 seconds
        </text>
        <g class="in">
          <circle cx="22" cy="239" r="5" />
          <circle cx="36" cy="239" r="5" />
          <circle cx="50" cy="239" r="5" />
          <circle cx="64" cy="239" r="5" />
          <circle cx="78" cy="239" r="5" />
        </g>
        <path class="grace" d="m91 234 10 10m0-10-10 10m14-10 10 10m0-10-10 10" />
        <path
          class="out"
          d="m119 234 10 10m0-10-10 10m14-10 10 10m0-10-10 10m14-10 10 10m0-10-10 10m14-10 10 10m0-10-10 10"
        />
        <rect class="ban" x="178" y="216" width="212" height="46" rx="6" />
        <text class="ban-text" x="284" y="244" text-anchor="middle">
          banned: {banSeconds} seconds
        </text>
        <path class="tie" d="M103 248v28" />
        <text class="small" x="58" y="290">
          {graceSeconds} s grace
        </text>
        <path class="tie" d="M146 248v46" />
        <text class="small" x="128" y="308">
          <tspan class="bad">strikes</tspan>, until they are as many
        </text>
        <text class="small" x="128" y="325">
          as the key's limit per minute
        </text>
        <text class="small" x="284" y="278" text-anchor="middle">
          next time {2 * banSeconds}, then {4 * banSeconds} …
        </text>
      </g>
      <g class="key">
        <circle class="in-dot" cx="16" cy="357" r="5" />
        <text class="small" x="27" y="361">
          admitted and counted
        </text>
        <path class="out" d="m190 352 10 10m0-10-10 10" />
        <text class="small" x="208" y="361">
          refused: 429, not counted
        </text>
      </g>
    </svg>
  );
}
