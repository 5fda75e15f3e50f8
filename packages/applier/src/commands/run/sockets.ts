import { controlOf, type StateHolder } from '../../control/serve.ts';
import { ControlSocket } from '../../control/socket.ts';
import { ActiveHealth } from '../../health/active.ts';
import { HealthMemory } from '../../health/memory.ts';
import { HealthPorts } from '../../health/ports.ts';
import { StatusPort } from '../../health/status-port.ts';
import { interfaceAddresses } from '../../kernel/facts.ts';
import { messageOf } from '../../message.ts';
import type { Repairs } from '../../status/repairs.ts';
import { lastingAlarm } from './alarms.ts';
import type { RunningNode } from './node.ts';

/** Everything the daemon listens on: the status port, the health-check node ports, and the socket for operators' commands. */
export class Sockets {
  /** What the health-check node ports answer. */
  readonly health: ActiveHealth;
  readonly control: ControlSocket;
  readonly #statusPort: StatusPort;
  readonly #healthPorts: HealthPorts;

  private constructor(node: RunningNode, statusPort: StatusPort, repairs: Repairs, order: StateHolder['order']) {
    const { config, log, session, status } = node;
    this.#statusPort = statusPort;
    this.#healthPorts = new HealthPorts({
      healthy: () => status.healthy,
      addresses: () => Object.values(interfaceAddresses()).flat(),
      failed: lastingAlarm('HEALTH_PORT', status, log),
    });
    this.health = new ActiveHealth({
      node: config.node,
      ports: this.#healthPorts,
      memory: new HealthMemory(config.state),
      unwritten: (error) =>
        log.warn({ because: messageOf(error) }, 'cannot save the health-check node ports for the next start'),
    });
    const holder: StateHolder = {
      ...session,
      repairs: () => repairs.read(),
      report: () => status.report(),
      order,
      ended: (account) => node.receiptWriter.report(account, undefined),
    };
    this.control = new ControlSocket(config.state, controlOf(holder), lastingAlarm('CONTROL_SOCKET', status, log));
  }

  /**
   * Opens the status port; the others follow with `refresh`.
   * @param order carries out an operator's order between two rounds
   */
  static async open(node: RunningNode, repairs: Repairs, order: StateHolder['order']): Promise<Sockets> {
    const { config, log, status } = node;
    const statusPort = new StatusPort(config.listen, {
      answer: (request, response) => void status.answer(request, response),
      failed: lastingAlarm('STATUS_PORT', status, log),
    });
    await statusPort.refresh();
    return new Sockets(node, statusPort, repairs, order);
  }

  /** Listens where that failed before, and on addresses that are new. */
  async refresh(): Promise<void> {
    await this.control.refresh();
    await this.#statusPort.refresh();
    await this.#healthPorts.refresh();
  }

  close(): void {
    this.#healthPorts.close();
    this.#statusPort.close();
    this.control.close();
  }
}
