// Ends this process with one sentence if its Node is too old for the syntax of the other modules.
const { node } = process.versions;
if (Number.parseInt(node, 10) < 24) {
  process.stderr.write(
    `error: Node ${node} is too old. Start commands and tests through npm, as in \`npm run keys\` and ` +
      "`npx vitest`: it uses the newer Node that `npm ci` has installed\n",
  );
  process.exit(1);
}
