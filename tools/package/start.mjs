// The first code of the executable, which holds both programs as texts: runs the one by whose name it was started.
import { basename } from 'node:path';
import { getAsset, getRawAsset } from 'node:sea';
import { SourceTextModule } from 'node:vm';

// argv0 is what the starter gave, such as a link's name; `process.argv` and /proc/self/exe name the executable behind it.
const name = basename(process.argv0) === 'sluiced' ? 'sluiced' : 'sluice';
const [, , word, ...more] = process.argv;
// Asked often, by package managers, pipelines and receipts, and answered without compiling a program of megabytes.
if (more.length === 0 && (word === '--version' || word === '-V')) printVersion();
else await run();

function printVersion() {
  // A closed pipe is not an error; of a full disk the program has words.
  process.stdout.once('error', (error) => {
    if (error.code !== 'EPIPE') void run();
  });
  process.stdout.write(getAsset('version', 'utf8'));
}

async function run() {
  // Programs are ASCII: one byte is one character. As a module of its own only this program is compiled and kept in memory.
  const program = new SourceTextModule(Buffer.from(getRawAsset(name)).latin1Slice(), { identifier: `${name}.mjs` });
  await program.link(() => {
    throw new Error('a program imports nothing: its parts are inside it');
  });
  await program.evaluate();
}
