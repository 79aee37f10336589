/** Options of tests that are skipped, and say so, where `program` is missing. */
export function needs(program: string, isHere: boolean) {
  if (!isHere) console.log(`Skipped without ${program}`);
  return { skip: !isHere };
}
