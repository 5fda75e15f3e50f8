import { runChildren } from '../../kernel/run.ts';
import { makeKey } from '../../observe/receipts/key.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { answer, type CommonOptions, loadConfig, type Terminal } from '../terminal/terminal.ts';

interface KeygenOptions extends CommonOptions {
  readonly renew?: boolean;
}

/** `sluiced keygen`: creates the key that signs receipts, once; prints its line for `allowed_receipts`. */
export async function keygen(options: KeygenOptions, terminal: Terminal): Promise<number> {
  const { state, node } = loadConfig(options);
  const allowedReceipts = await makeKey(state, node, options.renew === true, runChildren());
  answer(options, terminal, { kind: 'ReceiptKey', fields: { node, allowedReceipts }, text: `${allowedReceipts}\n` });
  return exitCodes.done;
}
