import { expect, test, vi } from 'vitest';
import { limits } from '../limits.ts';
import { Orders } from './orders.ts';

test('carries out orders one by one, and gives each caller its result', async () => {
  const orders = new Orders();
  const steps: string[] = [];
  const work = (name: string) => async (): Promise<string> => {
    steps.push(`${name} begins`);
    await Promise.resolve();
    steps.push(`${name} ends`);
    return name;
  };
  const results = [orders.add(work('a')), orders.add(work('b')), orders.add(() => Promise.reject(new Error('no')))];
  const settled = Promise.allSettled(results);
  expect(orders.size).toBe(3);
  await orders.carryOut();
  expect(steps).toEqual(['a begins', 'a ends', 'b begins', 'b ends']);
  expect(await settled).toMatchObject([{ value: 'a' }, { value: 'b' }, { reason: new Error('no') }]);
  expect(orders.size).toBe(0);
});

test('orders that arrive while others are carried out wait for the next round', async () => {
  const orders = new Orders();
  let done = 0;
  const flood = async (): Promise<void> => {
    done++;
    void orders.add(flood).catch(() => undefined);
  };
  for (let first = 0; first < 3; first++) void orders.add(flood);
  await orders.carryOut();
  expect(done).toBe(3);
  await orders.carryOut();
  expect(done).toBe(6);
  orders.refuse();
});

test('orders end no two changes in a row, and an idle queue none', async () => {
  const orders = new Orders();
  const ends: boolean[] = [];
  for (const waits of [false, true, true, true, false, true]) {
    if (waits) void orders.add(async () => undefined);
    orders.beginChange();
    ends.push(orders.endsChange());
    await orders.carryOut();
  }
  expect(ends).toEqual([false, true, false, true, false, true]);
});

test('refuses an order that waits too long for a change in progress', async () => {
  vi.useFakeTimers();
  try {
    const orders = new Orders();
    let isDone = false;
    const ends = Promise.allSettled([orders.add(async () => void (isDone = true))]);
    await vi.advanceTimersByTimeAsync(limits.orderWaitMs);
    const message = 'Cannot carry out the order now: the change in progress did not end within 60 s';
    expect(await ends).toMatchObject([{ status: 'rejected', reason: { message, exitCode: 3 } }]);
    await orders.carryOut();
    expect(isDone).toBe(false);
  } finally {
    vi.useRealTimers();
  }
});

test('refuses queued orders when sluiced stops', async () => {
  const orders = new Orders();
  const ends = Promise.allSettled([orders.add(async () => undefined)]);
  orders.refuse();
  expect(await ends).toMatchObject([
    { status: 'rejected', reason: { message: 'Cannot carry out the order now: sluiced ends' } },
  ]);
});

test('refuses an order that waits too long behind another one', async () => {
  vi.useFakeTimers();
  try {
    const orders = new Orders();
    const first = orders.add(() => new Promise<void>((done) => void setTimeout(done, limits.orderWaitMs * 2)));
    const work = vi.fn<() => Promise<void>>(async () => undefined);
    const second = orders.add(work).catch((error: unknown) => String(error));
    const all = orders.carryOut();
    await vi.advanceTimersByTimeAsync(limits.orderWaitMs * 3);
    await Promise.all([all, first]);
    expect(await second).toContain('did not end within');
    expect(work).not.toHaveBeenCalled();
  } finally {
    vi.useRealTimers();
  }
});

test('refuses an order at once after the loop has ended', async () => {
  vi.useFakeTimers();
  try {
    const orders = new Orders();
    orders.refuse();
    await expect(orders.add(async () => 'done')).rejects.toThrow('sluiced ends');
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});
