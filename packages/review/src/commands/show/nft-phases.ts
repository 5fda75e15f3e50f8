import {
  changeInPlace,
  isBySwitch,
  keepSlots,
  nftLimits,
  type NftState,
  printNft,
  probationChange,
  settledPlacement,
  trialOff,
} from '@sluice/netfilter';

/** One transaction of a release in mode nftables. */
export interface NftPhase {
  readonly phase: 'stage' | 'switch' | 'commit' | 'change' | 'load' | 'finish';
  readonly because: string;
  /** For `nft -f -`. */
  readonly text: string;
}

/** The dead-man time of sluiced.yaml without `probation.deadmanSeconds`. */
const deadmanSeconds = 30;

const later = `removes what no verdict leads to, at least ${nftLimits.inFlightMs} ms later`;

/**
 * What takes a node from one state to another, transaction by transaction, without those that there is nothing to do for. The node holds
 * the old state in half a of its slots and nothing else, as after a boot.
 */
export function nftPhases(from: NftState, to: NftState): readonly NftPhase[] {
  const desired = keepSlots(to, from);
  return phasesOf(from, desired).filter(({ text }) => text !== '');
}

function phasesOf(from: NftState, desired: NftState): readonly NftPhase[] {
  if (from.settings[0] !== desired.settings[0])
    return [
      { phase: 'load', because: 'loads the whole table', text: `delete table inet sluice\n${printNft(desired)}` },
    ];
  const held = settledPlacement(from, new Map());
  if (!isBySwitch(from, desired)) {
    const { first, late } = changeInPlace(held, desired).change;
    return [
      { phase: 'change', because: 'packets meet it at once', text: first },
      { phase: 'finish', because: later, text: late },
    ];
  }
  const { changed, staged, confirmed } = probationChange(held, from, desired);
  return [
    {
      phase: 'stage',
      because: `${changed.length} frontends beside the active ones, which no packet meets yet`,
      text: staged.first,
    },
    {
      phase: 'switch',
      because: 'packets meet the release until it is confirmed, or until the time is over',
      text: `${trialOff}${trialOn}`,
    },
    { phase: 'commit', because: 'the release is the default', text: `${trialOff}${confirmed.first}` },
    { phase: 'finish', because: later, text: confirmed.late },
  ];
}

const trialOn = [
  `add element inet sluice trial4 { 0.0.0.0/0 timeout ${deadmanSeconds}s }\n`,
  `add element inet sluice trial6 { ::/0 timeout ${deadmanSeconds}s }\n`,
].join('');
