/** What a load balancer has seen that follows the health port of a node. */
export interface BalancerSight {
  /** Whether it sends to the node. */
  readonly isIn: boolean;
  readonly sent: number;
  readonly lost: number;
  /** Requests on one connection that was there before, answered and not. */
  readonly kept: number;
  readonly cut: number;
}

/**
 * The text of a program: it takes the node out of service after two failed health checks, one each 200 ms, and else sends a new connection
 * every 20 ms. Beside that one connection from before goes on. It writes what came of it.
 * @param path of the file with a `BalancerSight`
 */
export const balancer = (path: string): string => `
  const { get, Agent } = require('node:http');
  const { writeFileSync, renameSync } = require('node:fs');
  const seen = { isIn: false, sent: 0, lost: 0, kept: 0, cut: 0 };
  let failed = 0;
  const ask = (url, agent, done) => {
    const one = get(url, { agent, timeout: 1000 }, (answer) => {
      answer.resume();
      answer.on('end', () => done(answer.statusCode === 200));
    });
    one.on('timeout', () => one.destroy());
    one.on('error', () => done(false));
  };
  setInterval(() => ask('http://127.0.0.1:10256/healthz', false, (isGood) => {
    failed = isGood ? 0 : failed + 1;
    seen.isIn = isGood || (seen.isIn && failed < 2);
  }), 200);
  setInterval(() => seen.isIn && ask('http://10.96.0.11/', false, (isGood) => { seen.sent++; if (!isGood) seen.lost++; }), 20);
  const long = new Agent({ keepAlive: true, maxSockets: 1 });
  setInterval(() => ask('http://10.96.0.11/', long, (isGood) => { if (isGood) seen.kept++; else seen.cut++; }), 100);
  setInterval(() => { writeFileSync('${path}.new', JSON.stringify(seen)); renameSync('${path}.new', '${path}'); }, 50);
`;
