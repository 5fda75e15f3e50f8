import { exitCodes } from '../../ports/outcome.ts';
import { checkReadable, peek } from '../../state/peek.ts';
import type { NodeRecord } from '../../state/record.ts';
import { controlStatus } from '../session/daemon-status.ts';
import { withControl } from '../session/control.ts';
import { answer, type CommonOptions, loadConfig, type Terminal } from '../terminal/terminal.ts';

interface QuarantineOptions extends CommonOptions {
  readonly lift?: string;
}

/** What is quarantined: a version of a bundle, or of a Service. */
interface QuarantinedItem {
  /** null: of a whole bundle. */
  readonly service: string | null;
  readonly version: string;
  readonly because: string;
}

/** `sluiced quarantine`: lists what is not tried again automatically; with `--lift`, tries it again. */
export async function quarantine(options: QuarantineOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  const { lift } = options;
  if (lift !== undefined) {
    await withControl(config, terminal, async (control) => {
      const { name } = await control.liftQuarantine({ name: lift });
      const text = `lifted: ${name} is tried again when its release is in the bundle directory\n`;
      answer(options, terminal, { kind: 'QuarantineLifted', fields: { node: config.node, name }, text });
    });
    return exitCodes.done;
  }
  checkReadable(config.state);
  const running = await controlStatus(config.state);
  const items = itemsOf(running?.record ?? peek(config.state));
  if (items.length === 0) terminal.err('nothing is quarantined\n');
  answer(options, terminal, {
    kind: 'Quarantine',
    fields: { node: config.node, items },
    text: items.map(({ service, version, because }) => `${service ?? 'bundle'}  ${version}  ${because}\n`).join(''),
  });
  return exitCodes.done;
}

const itemsOf = (record: NodeRecord | undefined): readonly QuarantinedItem[] => [
  ...Object.entries(record?.quarantined ?? {}).map(([version, because]) => ({ service: null, version, because })),
  ...(record?.quarantinedServices ?? []),
];
