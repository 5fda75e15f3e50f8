/** Exit codes, shared with `sluiced`; `sluice` uses 0, 1 and 2. */
export { exitCodes } from '@sluice/cli';
