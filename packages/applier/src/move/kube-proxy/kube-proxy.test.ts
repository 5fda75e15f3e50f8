// @module-tag quick
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { hasListener, removeDropIn } from './kube-proxy.ts';
import { heldPath, holdManifest, refuseManifest, releaseManifest } from './kube-proxy.ts';

describe('the manifest of a static pod', () => {
  let folder: string;
  let manifest: string;
  beforeEach(() => {
    folder = mkdtempSync(`${tmpdir()}/sluiced-manifests-`);
    manifest = `${folder}/kube-proxy.yaml`;
    writeFileSync(manifest, 'kind: Pod\n');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test('is hidden under a name with a dot, and comes back as it was; each may be done again', () => {
    for (let times = 0; times < 2; times++) holdManifest(manifest);
    expect(readdirSync(folder)).toEqual(['.sluiced-adopt.kube-proxy.yaml']);
    for (let times = 0; times < 2; times++) releaseManifest(manifest);
    expect(readdirSync(folder)).toEqual(['kube-proxy.yaml']);
    expect(readFileSync(manifest, 'utf8')).toBe('kind: Pod\n');
  });

  test('is what another program wrote again meanwhile, where the kubelet gets it back or another time not', () => {
    holdManifest(manifest);
    writeFileSync(manifest, 'kind: Pod # new\n');
    holdManifest(manifest);
    expect(readdirSync(folder)).toEqual(['.sluiced-adopt.kube-proxy.yaml']);
    expect(readFileSync(heldPath(manifest), 'utf8')).toBe('kind: Pod # new\n');
    writeFileSync(manifest, 'kind: Pod # newer\n');
    releaseManifest(manifest);
    expect(readdirSync(folder)).toEqual(['kube-proxy.yaml']);
    expect(readFileSync(manifest, 'utf8')).toBe('kind: Pod # newer\n');
  });

  test('is an error where there is none, and a refusal before', () => {
    mkdirSync(`${folder}/empty`);
    const none = `${folder}/empty/kube-proxy.yaml`;
    expect(() => holdManifest(none)).toThrow('ENOENT');
    releaseManifest(none);
    expect(refuseManifest(none)).toBe(`there is no ${none}`);
    expect(refuseManifest(`${folder}/empty`)).toBe(`${folder}/empty is no file`);
    expect(refuseManifest(manifest)).toBeUndefined();
    holdManifest(manifest);
    expect(refuseManifest(manifest)).toBeUndefined();
  });
});

describe('the condition of a unit', () => {
  let units: string;
  let folder: string;
  beforeEach(() => {
    units = mkdtempSync(`${tmpdir()}/sluiced-units-`);
    folder = `${units}/kube-proxy.service.d`;
    mkdirSync(folder);
    writeFileSync(`${folder}/sluiced-adopt.conf`, '[Unit]\n');
  });
  afterEach(() => rmSync(units, { recursive: true, force: true }));

  test('goes with a folder that has nothing else, and may be removed again', () => {
    for (let times = 0; times < 2; times++) removeDropIn(folder);
    expect(existsSync(folder)).toBe(false);
  });

  test('goes without a folder that has other files', () => {
    writeFileSync(`${folder}/other.conf`, '[Unit]\n');
    removeDropIn(folder);
    expect(readdirSync(folder)).toEqual(['other.conf']);
  });

  test('goes from a folder that is a link, which stays', () => {
    symlinkSync(folder, `${units}/link`);
    removeDropIn(`${units}/link`);
    expect(readdirSync(folder)).toEqual([]);
  });

  test('is an error where it stays', () => {
    mkdirSync(`${units}/held/sluiced-adopt.conf`, { recursive: true });
    expect(() => removeDropIn(`${units}/held`)).toThrow('sluiced-adopt.conf');
  });
});

test('a port is listened on, whatever else is connected to it', () => {
  const title = '  sl  local_address rem_address   st tx_queue rx_queue\n';
  const connected = '   0: 0100007F:2810 0100007F:9C40 01 00000000:00000000\n';
  const listening = '   1: 00000000:2810 00000000:0000 0A 00000000:00000000\n';
  expect(hasListener(title + connected, 10_256)).toBe(false);
  expect(hasListener(title + connected + listening, 10_256)).toBe(true);
  expect(hasListener(title + listening, 10_249)).toBe(false);
});
