// Loaded before a program: ends it with SIGKILL right before its n-th call that changes a file below a folder, and counts these calls.
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const [limit, folder] = [Number(process.env.KILLED_AT), process.env.KILLED_BELOW];
let calls = 0;
for (const name of ['writeFileSync', 'renameSync', 'rmSync', 'mkdirSync', 'rmdirSync', 'unlinkSync', 'openSync']) {
  const real = fs[name];
  fs[name] = (path, ...rest) => {
    const changes = name !== 'openSync' || typeof rest[0] === 'string' ? rest[0] !== 'r' : (rest[0] & 3) !== 0;
    if (changes && String(path).startsWith(folder) && ++calls === limit) process.kill(process.pid, 'SIGKILL');
    return real(path, ...rest);
  };
}
syncBuiltinESMExports();
process.on('exit', () => fs.writeSync(2, `calls: ${calls}\n`));
