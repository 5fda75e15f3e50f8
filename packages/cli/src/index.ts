export { shellCommands } from './commands.ts';
export { type Candidate, type Candidates, complete, type KnownNames } from './complete.ts';
export { examples } from './help.ts';
export { completionScript, type Shell, shells } from './scripts.ts';
