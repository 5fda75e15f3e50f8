import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'vitest';
import type { KeyPair } from '../cluster/certificates.fixture.ts';
import { type FoundProgram, needProgram } from './debian.ts';
import { Server } from './server.ts';

/** What nginx serves. */
export interface NginxSite {
  /** Directives of a `server`. */
  readonly directives: string;
  /** Its key and certificate; plain HTTP without them. */
  readonly identity?: KeyPair;
  /** A file for one line per request: method, path, status, bytes sent, and HIT or MISS of the cache. */
  readonly log?: string;
}

/** A folder as static files. */
export const staticFiles = (folder: string): string => `root ${folder};`;

/**
 * A cache in front of a registry: what has a digest in its path never changes, so it is kept; a tag is asked for at most once a second,
 * however many nodes poll it.
 */
export const cacheOf = (registry: string): string => `
  proxy_cache releases;
  proxy_cache_lock on;
  proxy_set_header Host $http_host;
  location ~ ^/v2/.*/(blobs|manifests)/sha256: { proxy_pass ${registry}; proxy_cache_valid 200 1h; }
  location /v2/ { proxy_pass ${registry}; proxy_cache_valid 200 404 1s; }`;

/**
 * A cache between nodes and `sluice watch --serve`, as docs/fetch.md has it: blobs never change, `index.json` is asked for again by its `ETag`
 * after a second, and events pass as they come.
 */
export const cacheOfWatch = (watch: string): string => `
  proxy_http_version 1.1;
  proxy_cache releases;
  proxy_cache_lock on;
  location /blobs/ { proxy_pass ${watch}; }
  location = /index.json { proxy_pass ${watch}; proxy_ignore_headers Cache-Control; proxy_cache_valid 200 1s; proxy_cache_revalidate on; }
  location = /events { proxy_pass ${watch}; proxy_cache off; proxy_buffering off; }`;

/** nginx of Debian, as programs of Debian are found. */
export const nginxPackages = ['nginx', 'libpcre2-8-0'] as const;
export const nginxPath = '/usr/sbin/nginx';

/** nginx of Debian on loopback; skips the test by name where it is missing. */
export const startNginx = async (context: TestContext, site: NginxSite): Promise<Server> =>
  serveNginx(await needProgram(context, nginxPath, nginxPackages), site);

/** The same, of a program that was found. */
export const serveNginx = ({ path, env }: FoundProgram, site: NginxSite): Promise<Server> =>
  Server.start('nginx', (folder, port) => {
    for (const name of ['body', 'proxy', 'cache']) mkdirSync(join(folder, name));
    writeFileSync(join(folder, 'nginx.conf'), configOf(folder, port, site));
    return { argv: [path, '-p', folder, '-e', 'stderr', '-c', join(folder, 'nginx.conf')], env };
  });

function configOf(folder: string, port: number, { directives, identity, log }: NginxSite): string {
  for (const [name, text] of Object.entries(identity ?? {})) writeFileSync(join(folder, `${name}.pem`), text);
  const tls = `ssl_certificate ${folder}/certificate.pem; ssl_certificate_key ${folder}/key.pem;`;
  return `${process.getuid?.() === 0 ? 'user root;' : ''}
daemon off;
worker_processes 1;
pid ${folder}/pid;
error_log stderr;
events { worker_connections 2048; }
http {
  client_max_body_size 0;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/body;
  uwsgi_temp_path ${folder}/body;
  scgi_temp_path ${folder}/body;
  proxy_cache_path ${folder}/cache keys_zone=releases:10m inactive=1d;
  log_format requests '$request_method $uri $status $bytes_sent $upstream_cache_status';
  access_log ${log === undefined ? 'off' : `${log} requests`};
  server {
    listen 127.0.0.1:${port}${identity ? ' ssl' : ''};
    ${identity ? tls : ''}
    ${directives}
  }
}
`;
}
