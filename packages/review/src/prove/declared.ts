import { type HeaderNotes, notesFor, notesOf, type PortNote, serviceOf } from '@sluice/bundle';
import { type Family, type Mode, modeFacts, perKey } from '@sluice/netfilter';
import { placeOf } from '../flows/destinations.ts';
import type { Destination } from '../flows/flow.ts';
import { commentBlockAt } from '../bundle/files.ts';
import { toolAt } from '../bundle/tools.ts';
import type { BundleView } from '../bundle/view.ts';

/** The declaration of a Service in the comment block of its file, for one family. */
export interface ServiceDeclaration {
  readonly service: string;
  readonly mode: Mode;
  readonly notes: HeaderNotes;
}

/** The kind of a Service's destination. */
export type Role = 'cluster' | 'external' | 'load-balancer' | 'node-port' | 'health-check';

/** One declared destination. */
export interface DeclaredFrontend {
  readonly declared: ServiceDeclaration;
  readonly role: Role;
  /** Absent for health checks, which the whole Service has. */
  readonly port?: PortNote;
  readonly destination: Destination;
}

const notesAt = perKey<BundleView, HeaderNotes>();

/**
 * The declarations of all Services of a profile in a family. In mode ipvs all files of a Service have the same comment block.
 * @throws Stopped for a file that nodes would refuse
 */
export function declaredIn(view: BundleView, profile: string, family: Family): readonly ServiceDeclaration[] {
  const mode = view.profiles.get(profile)?.mode ?? 'iptables';
  const serviceTool = modeFacts[mode].serviceTool(family);
  const found = new Map<string, ServiceDeclaration>();
  for (const path of view.index(profile, family).paths) {
    const service = serviceOf(path);
    if (toolAt(path).tool !== serviceTool && found.has(service)) continue;
    // One comment block for both families.
    const whole = notesAt(view, path, () => notesOf(commentBlockAt(view, path)));
    const notes = notesFor(family, whole);
    if (notes.ports.length > 0) found.set(service, { service, mode, notes });
  }
  return [...found.values()];
}

/** Every destination that a Service declares. */
export function declaredFrontends(declared: ServiceDeclaration): readonly DeclaredFrontend[] {
  const { notes, service } = declared;
  const services = [service];
  const frontends = notes.ports.flatMap((port): readonly DeclaredFrontend[] => {
    const at = (role: Role, address: string): DeclaredFrontend => ({
      declared,
      role,
      port,
      destination: { kind: 'address', address, port: port.port, protocol: port.protocol, services },
    });
    return [
      at('cluster', port.clusterIP),
      ...notes.externalAddresses.map((address) => at('external', address)),
      ...notes.loadBalancerAddresses.map((address) => at('load-balancer', address)),
      ...(port.nodePort === 0 ? [] : onNode(declared, 'node-port', port.nodePort, port)),
    ];
  });
  return notes.healthCheckPort === 0
    ? frontends
    : [...frontends, ...onNode(declared, 'health-check', notes.healthCheckPort, undefined)];
}

function onNode(
  declared: ServiceDeclaration,
  role: Role,
  number: number,
  port: PortNote | undefined,
): readonly DeclaredFrontend[] {
  const services = [declared.service];
  const { healthChecks } = modeFacts[declared.mode];
  const protocols = port === undefined ? healthChecks.protocols : [port.protocol];
  return (['node-port', 'localhost'] as const).flatMap((kind) =>
    protocols.map((protocol) => ({
      declared,
      role,
      ...(port === undefined ? {} : { port }),
      destination: { kind, address: '', port: number, protocol, services },
    })),
  );
}

/** By the text of the destination. */
export const frontendsByPlace = (frontends: readonly DeclaredFrontend[]): ReadonlyMap<string, DeclaredFrontend> =>
  new Map(frontends.map((frontend) => [placeOf(frontend.destination), frontend]));
