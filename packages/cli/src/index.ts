export { colours, type Paint } from './colour.ts';
export { columns } from './columns.ts';
export { shellCommands } from './commands.ts';
export { document, errorDocument } from './document.ts';
export { type ExitCode, exitCodes, exitLine } from './exit-codes.ts';
export type { Examined, Finding, FindingRule, Findings, FindingsFormat } from './findings/findings.ts';
export { junitDocument, type JunitCase } from './findings/junit.ts';
export { code, plain } from './findings/markdown-text.ts';
export { printFindings } from './findings/print.ts';
export {
  findingsOption,
  requestedFormat,
  type Format,
  formats,
  outputOption,
  outWords,
  pathOption,
  reportOption,
} from './format.ts';
export { type GitCall, readingGit, type RemoteAccess, remoteGit, writingGit } from './git.ts';
export { type BatchObject, isRegular, objectsIn, readBatch, readTreeLines, type TreeLine } from './git-objects.ts';
export { examples } from './help.ts';
export { type LogFormat, logFormats, type LogLevel, logLevels, type LogSettings, withLog } from './log-options.ts';
export { isJournal, withPriorities } from './journal.ts';
export { newProgram, usageProblem } from './program.ts';
export { escaped, printable } from './printable.ts';
export { isFileError, reasonOf } from './reason.ts';
export {
  version,
  versionCommand,
  versionLine,
  versionReport,
  versionWords,
} from './version.ts';
