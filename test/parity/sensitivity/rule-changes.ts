import { pick } from '../../review/mutate.ts';
import { another, type Change, otherAddress, otherPort, otherProtocol, replacing, rules } from './change.ts';

/** Mistakes in rules of iptables, as `iptables-save` prints them. */

const chain = /(?<= -[jg] )(?:KUBE|SLU|SLUICE)-\S+/g;
/** `KUBE-SVC-` of `KUBE-SVC-4M2E2PQHTG5HB7YP`. */
const kindOf = (name: string): string => /^[A-Z]+-[A-Z]+-/.exec(name)?.[0] ?? name;

/** One rule and its line end. */
const rule = /^-A .*\n/gm;
const pairOfRules = /^(-A (\S+) .*\n)(-A \2 .*\n)/gm;

export const ruleChanges: Readonly<Record<string, Change>> = {
  'rule removed': replacing(rules, rule, () => ''),
  'rule twice': replacing(rules, rule, ([line]) => line + line),
  'order of two rules': replacing(rules, pairOfRules, ([, one = '', , other = '']) => other + one),
  'rule at the end of its chain': replacing(
    rules,
    /^(-A (\S+) .*\n)((?:-A \2 .*\n)+)/gm,
    ([, one = '', , rest = '']) => rest + one,
  ),
  'target: another chain': replacing(rules, chain, ([name], random, text) =>
    another(name, new RegExp(`(?<= -[jg] )${kindOf(name)}\\S+`, 'g'), text, random),
  ),
  'target: mark for masquerading left out': replacing(rules, /^-A \S+ .*-j (?:KUBE|SLUICE)-MARK-MASQ\n/gm, () => ''),
  'target: another verdict': replacing(rules, /-j (?:ACCEPT|DROP|RETURN|REJECT.*)$/gm, ([found], random) => {
    const verdicts = ['-j ACCEPT', '-j DROP', '-j RETURN'].filter((one) => one !== found);
    return pick(verdicts, random);
  }),
  'address of a frontend': replacing(
    rules,
    /(-d )([0-9a-f.:]+)(\/(?:32|128))/g,
    ([, head, address = '', tail], random) => `${head}${otherAddress(address, random)}${tail}`,
  ),
  'network of destinations': replacing(rules, /-d 127\.0\.0\.0\/8/g, () => '-d 126.0.0.0/8'),
  'address of a client': replacing(
    rules,
    /(-s )([0-9a-f.:]+)(\/(?:32|128))/g,
    ([, head, address = '', tail], random) => `${head}${otherAddress(address, random)}${tail}`,
  ),
  'network of clients': replacing(
    rules,
    /-s (10\.244\.0\.0\/16|fd00:10:244::\/48|203\.0\.113\.0\/24|fd00:203::\/32|192\.0\.2\.0\/24)/g,
    ([, network], random) => {
      const six = network?.includes(':') === true;
      return `-s ${pick(six ? ['fd00:10:244:1::/64', 'fd00:203::/48', 'fd00:18::/32'] : ['10.244.1.0/24', '203.0.113.0/27', '198.18.0.0/24'], random)}`;
    },
  ),
  'negation of a network': replacing(rules, /(! )?-s (?=\S+\/(?:16|48|24|32) )/g, ([, negation]) =>
    negation ? '-s ' : '! -s ',
  ),
  'port of a frontend': replacing(
    rules,
    /--dport (\d+)/g,
    ([, port = ''], random) => `--dport ${otherPort(port, random)}`,
  ),
  'protocol of a rule': replacing(rules, /^-A .*-p (tcp|udp|sctp) .*\n/gm, ([line, protocol = ''], random) => {
    const other = otherProtocol(protocol, random);
    return line.replace(`-p ${protocol} `, `-p ${other} `).replace(`-m ${protocol} `, `-m ${other} `);
  }),
  'address of an endpoint': replacing(
    rules,
    /--to-destination \[?([0-9a-f.:]*[0-9a-f])\]?:(\d+)/g,
    ([, address = '', port], random) => {
      const other = otherAddress(address, random);
      return `--to-destination ${other.includes(':') ? `[${other}]` : other}:${port}`;
    },
  ),
  'port of an endpoint': replacing(
    rules,
    /(--to-destination \S+:)(\d+)/g,
    ([, head, port = ''], random) => `${head}${otherPort(port, random)}`,
  ),
  probability: replacing(rules, /--probability ([\d.]+)/g, ([, chance = ''], random) => {
    const value = Number(chance);
    const other = value > 0.45 ? value * pick([0.15, 0.3], random) : value + pick([0.35, 0.5], random);
    return `--probability ${other.toFixed(11)}`;
  }),
  'rule of chance that matches always': replacing(rules, /-m statistic --mode random --probability \S+ /g, () => ''),
  'bit of a mark': replacing(rules, /--(set-xmark|mark) 0x4000\/0x4000/g, ([, option]) => `--${option} 0x8000/0x8000`),
  'state of connections': replacing(
    rules,
    /--ctstate (NEW|INVALID|RELATED,ESTABLISHED)(?= )/g,
    ([, state = ''], random) => {
      const states = ['NEW', 'INVALID', 'RELATED,ESTABLISHED'].filter((one) => one !== state);
      return `--ctstate ${pick(states, random)}`;
    },
  ),
  'test of the state left out': replacing(rules, /-m conntrack (?:! )?--ctstate \S+ /g, () => ''),
  'test of a local address left out': replacing(rules, /-m addrtype --(?:dst|src)-type LOCAL /g, () => ''),
  'test of a source left out': replacing(
    rules,
    /^(-A \S+) (?:! )?-s \S+ (.*\n)/gm,
    ([, head, rest]) => `${head} ${rest}`,
  ),
  'test of a destination left out': replacing(
    rules,
    /^(-A \S+ (?:(?:! )?-s \S+ )?)-d \S+ (.*\n)/gm,
    ([, head, rest]) => `${head}${rest}`,
  ),
  'affinity: clients are not remembered': replacing(rules, /-m recent --set \S+(?: --mask \S+)? --rsource /g, () => ''),
  'affinity: clients are not looked up': replacing(rules, /^-A \S+ .*-m recent (?:--rcheck|--update) .*\n/gm, () => ''),
  'affinity: another list': replacing(rules, /(--rcheck .*--name )(\S+)/g, ([, head, name = '']) => `${head}${name}X`),
  'policy of a chain': replacing(
    rules,
    /^:(PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING) ACCEPT$/gm,
    ([, name]) => `:${name} DROP`,
  ),
};

/** Shown only by a client that comes back after the shorter of both times. */
export const ruleTimeChanges: Readonly<Record<string, Change>> = {
  'affinity: seconds': replacing(rules, /--seconds \d+/g, () => '--seconds 1'),
};
