export { shellCommands } from './commands.ts';
export { type Candidate, type Candidates, complete, type KnownNames } from './complete.ts';
export { type GitCall, readingGit, writingGit } from './git.ts';
export { examples } from './help.ts';
export { completionScript, type Shell, shells } from './scripts.ts';
