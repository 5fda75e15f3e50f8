/** The exit codes, which `sluiced` shares; `sluice` ends with 0, 1 or 2. */
export { exitCodes } from '@sluice/cli';
