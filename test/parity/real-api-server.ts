/**
 * A real API server in the network namespace of a node. Arguments: its programs as JSON, the ranges of Services, and a file that gets the
 * kubeconfigs as JSON once it answers. It ends with SIGTERM, and removes its state.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { realApi } from '../cluster/real-api.fixture.ts';
import type { ApiServerPrograms } from './binaries.ts';

const [programs = '', ranges = '', file = ''] = process.argv.slice(2);
const api = await realApi(JSON.parse(programs) as ApiServerPrograms, '127.0.0.1', ranges);
process.once('SIGTERM', () => void api.close().then(() => process.exit(0)));
writeFileSync(`${file}.part`, JSON.stringify({ admin: api.admin, mover: api.kubeconfig }));
renameSync(`${file}.part`, file);
