import type { Command } from 'commander';
import { layoutOption } from '@sluice/renderer/commands/options/options.ts';
import { notEmpty } from '@sluice/renderer/commands/options/values.ts';

/** Adds the options that say which packet to trace on which node. */
export const withPacket = (command: Command): Command =>
  withFlow(command.requiredOption('--node <NAME>', 'the node', notEmpty));

/** Adds the options that say which packet to trace. */
export function withFlow(command: Command): Command {
  return command
    .requiredOption('--from <ADDRESS>', 'the source address; `node` for the node itself', notEmpty)
    .requiredOption(
      '--to <ADDRESS:PORT/PROTO|SERVICE:PORT>',
      'the destination, of TCP without a PROTO; for a Service (shop/web:80, shop/web:http), its ClusterIP',
      notEmpty,
    )
    .option('--in <INTERFACE>', 'the incoming interface; default: the usual one for such a source', notEmpty)
    .addOption(layoutOption());
}

/** Adds the options that say what nodes have reported. */
export function withReceipts(command: Command): Command {
  return command
    .option('--receipts <DIR>', 'the receipts of nodes: adds what the node says that it ran', notEmpty)
    .option('--allowed-receipts <FILE>', 'the keys of the nodes, as for `sluice fleet`; with --receipts', notEmpty);
}
