/** What `nft -n list table inet sluice` says, read apart from the code that it judges. */
export class NftListing {
  readonly #text: string;
  readonly #elements = new Map<string, ReadonlyMap<string, string>>();

  /** @param text `''`: there is no table */
  constructor(text: string) {
    this.#text = text;
    for (const [, name = '', body = ''] of text.matchAll(/\t(?:map|set) (\S+) \{([^]*?)\n\t\}/g))
      this.#elements.set(name, new Map(elementsIn(body)));
  }

  /** The elements of a set or map, by key; without their times. */
  elements(name: string): ReadonlyMap<string, string> {
    return this.#elements.get(name) ?? new Map();
  }

  /** The rules of all chains but those of lists, which stay when no verdict leads to them any more. */
  get chains(): string {
    const all = [...this.#text.matchAll(/\tchain (\S+) \{([^]*?)\n\t\}/g)];
    return all
      .filter(([, name = '']) => !listChain.test(name))
      .map(([chain]) => chain)
      .join('\n');
  }

  /** Whether some packets meet the overlay. */
  isOnTrial(n: '4' | '6'): boolean {
    return this.elements(`trial${n}`).size > 0;
  }

  /**
   * Each frontend with the endpoints that packets get, or with the verdict on them. Slots and halves do not count.
   * @param isOnTrial whether these packets meet the overlay
   */
  frontends(n: '4' | '6', isOnTrial: boolean): readonly string[] {
    const [svc, tsvc, none, tnone, tkey] = ['svc', 'tsvc', 'none', 'tnone', 'tkey'].map((name) =>
      this.elements(`${name}${n}`),
    ) as [Elements, Elements, Elements, Elements, Elements];
    const keys = new Set([svc, tsvc, none, tnone].flatMap((map) => [...map.keys()]));
    return [...keys].toSorted().flatMap((key) => {
      const verdict = (isOnTrial && tkey.has(key) ? tsvc : svc).get(key) ?? 'accept';
      const unserved = tnone.get(key) ?? none.get(key);
      if (verdict !== 'accept') return [`${key}: ${this.#list(n, key, verdict).toSorted().join(', ')}`];
      return unserved === undefined ? [] : [`${key}: ${unserved}`];
    });
  }

  #list(n: '4' | '6', key: string, verdict: string): readonly string[] {
    const [, count, half] = /^goto n(\d+)(b?)$/.exec(verdict) ?? [];
    if (count === undefined) return [`a verdict that this test does not know: ${verdict}`];
    const [address, protocol = '', port] = key.split(' . ');
    const slots = this.elements(`${protocols[protocol]}${n}`);
    const first = half === 'b' ? 65_536 : 0;
    return Array.from(
      { length: Number(count) },
      (_, at) => slots.get(`${address} . ${port} . ${first + at}`) ?? 'nothing',
    );
  }

  /**
   * All elements but those of the switch, without their slots, halves and ids: what a release on probation adds looks like what it is
   * when it is confirmed.
   */
  get contents(): readonly string[] {
    return [...this.#elements].flatMap(([name, elements]) =>
      /^(trial|tkey|aff)[46]$/.test(name)
        ? []
        : [...elements].map(([key, value]) => {
            const set = name.replace(/^t(?=svc|out|none|fw|always|near|allow)/, '').replace(/^(l?id)b/, '$1');
            const kept = /^(tcp|udp|sctp|slot)[46]$/.test(set) ? key.replace(/ \. \d+$/, '') : key;
            return `${set} ${kept} : ${value.replace(/(?<=goto \S+)b$/, '')}`;
          }),
    );
  }
}

type Elements = ReadonlyMap<string, string>;

const listChain = /^p?(?:[nl]\d+|[sr]\d+t\d+)b?(?:-known)?$/;

const protocols: Readonly<Record<string, string>> = { '6': 'tcp', '17': 'udp', '132': 'sctp' };

function elementsIn(body: string): readonly (readonly [string, string])[] {
  const list = /elements = \{ ([^]*?) \}/.exec(body)?.[1] ?? '';
  return list.split(/,\s*/).flatMap((one) => {
    const [key = '', value = ''] = one.trim().split(' : ');
    return key === '' ? [] : [[key.replace(/ (?:timeout|expires|counter) .*$/, ''), value] as const];
  });
}
