import { nearest, type Place, type Problem } from '@sluice/netfilter';
import type { Json, JsonObject, Path } from '../../render/model/kube.ts';
import { ignoredProblem } from './problems.ts';
import type { TextOrigin } from './text.ts';

/** A word of a command line, or an argument such as `proxy-mode=ipvs`. */
export interface Word {
  readonly text: string;
  readonly place: Place;
}

/** One flag of kube-proxy, such as `--proxy-mode=ipvs`. */
export interface Flag {
  readonly name: string;
  readonly value: string;
  readonly place: Place;
}

/** A KubeProxyConfiguration that says what flags say; places are those of the flags. */
interface FlagsRead {
  readonly value: JsonObject;
  readonly origin: TextOrigin;
  /** The file of `--config`: with it kube-proxy reads no other flag that changes rules. */
  readonly file?: Flag;
  readonly problems: readonly Problem[];
}

type Reading = (text: string) => Json;

const asIs: Reading = (text) => text;
const number: Reading = (text) => (/^-?[0-9]{1,10}$/.test(text) ? Number(text) : text);
/** Go's `strconv.ParseBool`. */
const flag: Reading = (text) => {
  if (/^(?:1|t|T|TRUE|true|True)$/.test(text)) return true;
  return /^(?:0|f|F|FALSE|false|False)$/.test(text) ? false : text;
};
const itemsOf = (text: string): readonly string[] => (text === '' ? [] : text.split(',').map((item) => item.trim()));
const list: Reading = itemsOf;
const gates: Reading = (text) =>
  Object.fromEntries(
    itemsOf(text).map((item) => {
      const { name, value } = split(item);
      return [name.trim(), flag(value.trim())] as const;
    }),
  );

/** The fields that each flag sets (`cmd/kube-proxy/app/options.go` of 1.37), and how its text is read. */
const fields: Readonly<Record<string, readonly [Reading, ...string[]]>> = {
  'feature-gates': [gates, 'featureGates'],
  'hostname-override': [asIs, 'hostnameOverride'],
  'bind-address': [asIs, 'bindAddress'],
  'healthz-bind-address': [asIs, 'healthzBindAddress'],
  'healthz-port': [(text) => `0.0.0.0:${text}`, 'healthzBindAddress'],
  'proxy-mode': [asIs, 'mode'],
  'iptables-masquerade-bit': [number, 'iptables.masqueradeBit'],
  'masquerade-all': [flag, 'iptables.masqueradeAll', 'nftables.masqueradeAll'],
  'iptables-localhost-nodeports': [flag, 'iptables.localhostNodePorts'],
  'iptables-sync-period': [asIs, 'iptables.syncPeriod'],
  'iptables-min-sync-period': [asIs, 'iptables.minSyncPeriod'],
  'ipvs-sync-period': [asIs, 'ipvs.syncPeriod'],
  'ipvs-min-sync-period': [asIs, 'ipvs.minSyncPeriod'],
  'ipvs-scheduler': [asIs, 'ipvs.scheduler'],
  'ipvs-exclude-cidrs': [list, 'ipvs.excludeCIDRs'],
  'ipvs-strict-arp': [flag, 'ipvs.strictARP'],
  'ipvs-tcp-timeout': [asIs, 'ipvs.tcpTimeout'],
  'ipvs-tcpfin-timeout': [asIs, 'ipvs.tcpFinTimeout'],
  'ipvs-udp-timeout': [asIs, 'ipvs.udpTimeout'],
  'detect-local-mode': [asIs, 'detectLocalMode'],
  'pod-bridge-interface': [asIs, 'detectLocal.bridgeInterface'],
  'pod-interface-name-prefix': [asIs, 'detectLocal.interfaceNamePrefix'],
  'cluster-cidr': [asIs, 'clusterCIDR'],
  'nodeport-addresses': [list, 'nodePortAddresses'],
  'oom-score-adj': [number, 'oomScoreAdj'],
  'conntrack-max-per-core': [number, 'conntrack.maxPerCore'],
  'conntrack-min': [number, 'conntrack.min'],
  'conntrack-tcp-timeout-established': [asIs, 'conntrack.tcpEstablishedTimeout'],
  'conntrack-tcp-timeout-close-wait': [asIs, 'conntrack.tcpCloseWaitTimeout'],
  'conntrack-tcp-be-liberal': [flag, 'conntrack.tcpBeLiberal'],
  'conntrack-udp-timeout': [asIs, 'conntrack.udpTimeout'],
  'conntrack-udp-timeout-stream': [asIs, 'conntrack.udpStreamTimeout'],
};

const wordsIn = (text: string): readonly string[] => text.trim().split(/\s+/);

/** Flags that change no rule: the connection to the API server, the process, its log; some are of older versions. */
const withoutEffect: ReadonlySet<string> = new Set(
  wordsIn(`
    kubeconfig master kube-api-content-type kube-api-burst kube-api-qps config-sync-period
    metrics-bind-address metrics-port bind-address-hard-fail profiling show-hidden-metrics-for-version v
    vmodule logging-format log-flush-frequency log-json-info-buffer-size log-json-split-stream
    log-text-info-buffer-size log-text-split-stream logtostderr alsologtostderr stderrthreshold log-dir
    log-file log-file-max-size log-backtrace-at one-output skip-headers skip-log-headers add-dir-header help
    version proxy-port-range resource-container boot-id-file machine-id-file windows-service
    forward-healthcheck-vip
  `),
);

/** Flags that are switches: the word behind one is no value. */
const switches: ReadonlySet<string> = new Set([
  ...Object.entries(fields).flatMap(([name, [reading]]) => (reading === flag ? [name] : [])),
  ...wordsIn(`
    bind-address-hard-fail profiling logtostderr alsologtostderr one-output skip-headers help skip-log-headers
    add-dir-header version cleanup cleanup-ipvs init-only windows-service
  `),
]);

/** The flags of a command line: `--name=value`, `--name value`, or `--name` of a switch. */
export function flagsOf(words: readonly Word[]): readonly Flag[] {
  return words.flatMap((word, at) => {
    if (!/^--?[A-Za-z]/.test(word.text)) return [];
    const found = flagOf(word);
    const next = words[at + 1]?.text;
    const isSplit = !word.text.includes('=') && !switches.has(found.name) && next?.startsWith('-') === false;
    return [isSplit ? { ...found, value: next } : found];
  });
}

/** `name=value` with dashes in front or without; without a value it is `true`. kube-proxy takes `_` for `-`. */
export function flagOf({ text, place }: Word): Flag {
  const { name, value } = split(text.replace(/^-{1,2}/, ''));
  return { name: name.replaceAll('_', '-'), value, place };
}

function split(text: string): { readonly name: string; readonly value: string } {
  const at = text.indexOf('=');
  return at < 0 ? { name: text, value: 'true' } : { name: text.slice(0, at), value: text.slice(at + 1) };
}

/**
 * Reads flags as kube-proxy does without `--config`: the last one counts, and lists grow.
 * @param start where their source begins
 * @param object names their source in problems, such as `DaemonSet kube-system/kube-proxy`
 */
export function readFlags(flags: readonly Flag[], start: Place, object: string): FlagsRead {
  const file = flags.find(({ name }) => name === 'config');
  const value: Record<string, Json> = {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
  };
  const places = new Map<string, Place>();
  const problems: Problem[] = [];
  const ignore = ({ name, place: at }: Flag, why: string, hint: string): void => {
    problems.push(ignoredProblem(at, object, [[`--${name}`]], why, hint));
  };
  for (const one of flags) {
    const field = Object.hasOwn(fields, one.name) ? fields[one.name] : undefined;
    if (withoutEffect.has(one.name) || one.name === 'config') continue;
    if (field === undefined) {
      const near = nearest(one.name, Object.keys(fields));
      const hint = near === undefined ? 'Check its spelling, or remove it' : `Did you mean --${near}?`;
      ignore(one, 'kube-proxy 1.37 has no flag of this name', hint);
    } else if (/\$[({]|\{\{/.test(one.value)) {
      // The name of the node is in its own config.
      if (one.name !== 'hostname-override')
        ignore(one, 'its value is a variable', 'Set the field in a profile of sluice.yaml');
    } else
      for (const name of field.slice(1) as string[]) {
        put(value, name.split('.'), field[0](one.value));
        places.set(name, one.place);
      }
  }
  const place = (path: Path): Place => placeOf(places, path) ?? start;
  return { value, origin: { place, keyPlace: place }, ...(file === undefined ? {} : { file }), problems };
}

/** The flag that sets a field, or one that contains it. */
function placeOf(places: ReadonlyMap<string, Place>, path: Path): Place | undefined {
  for (let length = path.length; length > 0; length--) {
    const found = places.get(path.slice(0, length).join('.'));
    if (found !== undefined) return found;
  }
  return undefined;
}

function put(map: Record<string, Json>, [key = '', ...below]: readonly string[], value: Json): void {
  if (below.length > 0) {
    const inner = { ...((map[key] ?? {}) as JsonObject) };
    put(inner, below, value);
    map[key] = inner;
    return;
  }
  const before = map[key];
  if (Array.isArray(before) && Array.isArray(value)) map[key] = [...before, ...value];
  else if (key === 'featureGates') map[key] = { ...((before ?? {}) as JsonObject), ...(value as JsonObject) };
  else map[key] = value;
}
