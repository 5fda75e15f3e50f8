import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ApiObject, bodyOf, send } from './apiserver.fixture.ts';

interface LeaseBody {
  readonly metadata: { readonly name: string; readonly resourceVersion?: string; readonly annotations?: ApiObject };
  readonly spec: ApiObject;
}

/** Leases as the API server stores them: a change names the version that it was made from. */
export class LeaseServer {
  /** The status of every answer; 200: normal operation. */
  status = 200;
  /** The status of every answer to a change, such as in a missing namespace; 200: normal operation. */
  writeStatus = 200;
  /** The holders whose changes never arrive. */
  isDeafTo = '';
  #version = 1;
  readonly #leases = new Map<string, ApiObject>();

  put(name: string, spec: ApiObject, annotations?: ApiObject): void {
    this.#version += 1;
    const metadata = { name, resourceVersion: String(this.#version), ...(annotations && { annotations }) };
    this.#leases.set(name, { metadata, spec });
  }

  annotations(name: string): ApiObject | undefined {
    return (this.#leases.get(name)?.['metadata'] as { annotations?: ApiObject } | undefined)?.annotations;
  }

  spec(name: string): ApiObject | undefined {
    return this.#leases.get(name)?.['spec'] as ApiObject | undefined;
  }

  answer(path: string, request: IncomingMessage, response: ServerResponse): boolean {
    if (!path.includes('/leases')) return false;
    void this.#answer(path, request, response);
    return true;
  }

  async #answer(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await bodyOf(request);
    if (text === undefined) return;
    if (this.status !== 200) return send(response, this.status, {});
    const name = path.split('/').at(-1) ?? '';
    if (request.method === 'GET') return this.#show(name, response);
    if (this.writeStatus !== 200) return send(response, this.writeStatus, {});
    const body = JSON.parse(text) as LeaseBody;
    if (this.isDeafTo !== '' && body.spec['holderIdentity'] === this.isDeafTo) return;
    const there = this.#leases.get(body.metadata.name)?.['metadata'] as { resourceVersion?: string } | undefined;
    if (there?.resourceVersion !== body.metadata.resourceVersion) return send(response, 409, {});
    this.put(body.metadata.name, body.spec, body.metadata.annotations);
    send(response, request.method === 'POST' ? 201 : 200, this.#leases.get(body.metadata.name));
  }

  #show(name: string, response: ServerResponse): void {
    const lease = this.#leases.get(name);
    send(response, lease === undefined ? 404 : 200, lease ?? {});
  }
}
