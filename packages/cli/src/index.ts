export { columns } from './columns.ts';
export { shellCommands } from './commands.ts';
export { type Completion, type Completions, complete, type KnownNames } from './complete.ts';
export { document, type ErrorProblem, errorDocument } from './document.ts';
export { type ExitCode, exitCodes, exitDetails, exitLine, exitMeanings } from './exit-codes.ts';
export { isFormatOption, requestedFormat, type Format, formats, outputOption, reportOption } from './format.ts';
export { type GitCall, readingGit, writingGit } from './git.ts';
export { type BatchObject, isRegular, objectsIn, readBatch, readTreeLines, type TreeLine } from './git-objects.ts';
export { examples, usageProblem } from './help.ts';
export { type LogFormat, logFormats, type LogLevel, logLevels, type LogSettings, withLog } from './log-options.ts';
export { isJournal, withPriorities } from './journal.ts';
export { escaped, printable } from './printable.ts';
export { completionScript, type Shell, shells } from './scripts.ts';
export {
  versionCommand,
  versionLine,
  type VersionReport,
  versionReport,
  type VersionSource,
  versionWords,
} from './version.ts';
