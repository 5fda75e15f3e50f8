import { readlinkSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { uptime } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseAddressAndPort } from '@sluice/netfilter';
import { makeControl, type StateHolder } from '../../daemon/control/serve.ts';
import { ControlSocket } from '../../daemon/control/socket.ts';
import { ActiveHealth } from '../../observe/health/active.ts';
import { Drain } from '../../observe/health/drain.ts';
import { healthFile } from '../../observe/health/declared.ts';
import { HealthPorts } from '../../observe/health/ports.ts';
import { LocalhostPorts } from '../../observe/health/localhost-ports.ts';
import { StatusPort } from '../../observe/health/status-port.ts';
import { type Doubt, Vips } from '../../observe/health/vip.ts';
import { VipFiles } from '../../observe/health/vip-files.ts';
import { answerHealth, answerMetrics } from '../../observe/status/kube-proxy-ports.ts';
import { interfaceAddresses } from '../../kernel/facts.ts';
import { messageOf } from '../../message.ts';
import { bootId } from '../../move/parity/read-file.ts';
import { FrontendProbes } from '../../observe/probe/frontend-probes.ts';
import { saysWrong } from '../../observe/status/alarms.ts';
import type { Repairs } from '../../observe/status/repairs.ts';
import { lastingAlarm } from './alarms.ts';
import type { RunningNode } from './node.ts';

type Orders = Pick<StateHolder, 'order' | 'look'>;

/** Everything the daemon listens on: the status port, the health-check node ports, node ports on ::1, and the socket for operators' commands. */
export interface Sockets {
  /** What the health-check node ports answer. */
  readonly health: ActiveHealth;
  readonly control: ControlSocket;
  readonly drain: Drain;
  /** Node ports on ::1 in mode nftables. */
  readonly localhost: LocalhostPorts;
  /** Answers about addresses that are announced. */
  readonly vips: Vips;
  /** Answers about addresses, from now on. @param doubt of the rules in the kernel */
  announce(doubt: () => Doubt): void;
  /** Listens where that failed before, and on addresses that are new. */
  refresh(): Promise<void>;
  close(): void;
}

/**
 * Opens the status port, and those of kube-proxy that the config names; the others follow with `refresh`.
 * @param orders of operators, to the daemon
 */
export async function openSockets(node: RunningNode, repairs: Repairs, orders: Orders): Promise<Sockets> {
  const { config, log, monotonicMs, session, status } = node;
  const drain = new Drain(config.state, bootId(), Date.now);
  const vips = makeVips(node, drain);
  const vipFiles = makeVipFiles(node, vips);
  const statusPorts = makeStatusPorts(node, vips);
  for (const port of statusPorts) await port.refresh();
  const healthPorts = new HealthPorts({
    healthy: () => status.healthy && !drain.now,
    answers: (address) => drain.answers(address),
    addresses: () => Object.values(interfaceAddresses()).flat(),
    failed: lastingAlarm('HEALTH_PORT', status, log),
  });
  const localhost = new LocalhostPorts({
    journal: session.journal,
    monotonicMs,
    failed: lastingAlarm('LOCALHOST_PORT', status, log),
    counted: (open, failures) => status.metrics.localhost(open, failures),
  });
  const holder: StateHolder = {
    ...session,
    ...orders,
    repairs: () => repairs.read(),
    report: () => status.report(),
    drain,
    ended: (account) => node.receiptWriter.report(account, undefined),
  };
  const control = new ControlSocket(config.state, makeControl(holder), lastingAlarm('CONTROL_SOCKET', status, log));
  const health = new ActiveHealth({
    node: config.node,
    ports: healthPorts,
    memory: healthFile(config.state),
    unwritten: (error) =>
      log.warn({ because: messageOf(error) }, 'cannot save the health-check node ports for the next start'),
  });
  return {
    health,
    control,
    drain,
    localhost,
    vips,
    announce: (doubt) => {
      vips.watches(doubt);
      vipFiles.open();
    },
    refresh: async () => {
      for (const one of [control, ...statusPorts, healthPorts, localhost]) await one.refresh();
    },
    close: () => {
      for (const one of [vipFiles, healthPorts, localhost, ...statusPorts, control]) one.close();
    },
  };
}

function makeVips({ config, session, status }: RunningNode, drain: Drain): Vips {
  const sleepIdly = (ms: number): Promise<void> => sleep(ms, undefined, { ref: false });
  const probes = new FrontendProbes(config.probes, { bootMs: () => uptime() * 1000, sleep: sleepIdly });
  return new Vips({
    journal: session.journal,
    alarm: () => Object.keys(status.report().alarms).find(saysWrong),
    drain,
    passes: (frontend) => probes.passes(frontend),
  });
}

const makeVipFiles = ({ config, log }: RunningNode, vips: Vips): VipFiles =>
  new VipFiles({
    ...config.vip,
    codeOf: (frontend) => vips.about(parseAddressAndPort(frontend)!).code,
    uptime,
    process: `${process.pid} ${readlinkSync('/proc/self/ns/pid')}`,
    failed: (error) => log.warn({ because: messageOf(error) }, 'cannot write the files of vip; retrying'),
  });

/** One alarm says which of them cannot be opened. */
function makeStatusPorts({ config, log, status }: RunningNode, vips: Vips): readonly StatusPort[] {
  const alarm = lastingAlarm('STATUS_PORT', status, log);
  /** By its place in `wanted`: two may have one address. */
  const failed = new Map<number, string>();
  const view = () => status.proxyView;
  const wanted: readonly (readonly [string | undefined, RequestListener])[] = [
    [
      config.listen,
      (request, response) => {
        if (!vips.answer(request, response)) void status.answer(request, response);
      },
    ],
    [config.healthzBindAddress, answerHealth(view)],
    [config.metricsBindAddress, answerMetrics(view)],
  ];
  return wanted.flatMap(([listen, answer], at) =>
    listen === undefined
      ? []
      : new StatusPort(listen, {
          answer,
          failed: (why) => {
            if (why === undefined) failed.delete(at);
            else failed.set(at, why);
            alarm(failed.size === 0 ? undefined : [...failed.values()].join('; '));
          },
        }),
  );
}
