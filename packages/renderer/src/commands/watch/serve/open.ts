import { readLayoutReference } from '@sluice/transport/content/layout.ts';
import { Stopped } from '../../failure/failure.ts';
import { ReleaseServer, type ServeReport } from './server.ts';

/** The options of `sluice watch` for its server of releases. */
export interface ServeOptions {
  /** `0.0.0.0:9443` */
  readonly serve?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly clientCa?: string;
  readonly push?: true | string;
}

/**
 * Opens the server of the options; undefined: they want none.
 * @throws Stopped for options that lack something, and as `ReleaseServer.open`
 */
export async function openServer(
  { serve, tlsCert, tlsKey, clientCa, push }: ServeOptions,
  report: ServeReport,
): Promise<ReleaseServer | undefined> {
  const layout = typeof push === 'string' ? readLayoutReference(push) : undefined;
  if (serve !== undefined && layout && tlsCert !== undefined && tlsKey !== undefined) {
    const identity = { certificate: tlsCert, key: tlsKey, clientAuthorities: clientCa };
    return ReleaseServer.open(serve, layout, identity, report);
  }
  if ((serve ?? tlsCert ?? tlsKey ?? clientCa) === undefined) return undefined;
  throw new Stopped({
    code: 'REGISTRY_INVALID',
    level: 'error',
    message: 'Cannot serve releases: --serve needs --tls-cert, --tls-key and a directory of releases',
    hint: 'Pass --serve ADDRESS:PORT --tls-cert FILE --tls-key FILE --push oci:DIR:TAG; --client-ca is for --serve alone',
  });
}
