// Loaded before a program: ends it with SIGKILL right before its n-th call that changes a file below a folder, and counts these calls.
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const limit = Number(process.env['KILLED_AT']);
const folder = process.env['KILLED_BELOW'] ?? '/';
const functions = fs as unknown as Record<string, (...args: readonly unknown[]) => unknown>;
let calls = 0;

/** Opening to read changes nothing. */
function isChange(name: string, flags: unknown): boolean {
  if (name !== 'openSync') return true;
  return typeof flags === 'number' ? (flags & 3) !== 0 : flags !== 'r';
}

for (const name of ['writeFileSync', 'renameSync', 'rmSync', 'mkdirSync', 'rmdirSync', 'unlinkSync', 'openSync']) {
  const real = functions[name];
  functions[name] = (...args) => {
    const [path, flags] = args;
    const isBelow = typeof path === 'string' && path.startsWith(folder);
    if (isBelow && isChange(name, flags) && ++calls === limit) process.kill(process.pid, 'SIGKILL');
    return real?.(...args);
  };
}
syncBuiltinESMExports();
process.on('exit', () => {
  fs.writeSync(2, `calls: ${calls}\n`);
});
