import {
  addAdoptPlan,
  addCertify,
  addFleet,
  addPack,
  addPromote,
  addPull,
  addPush,
  addRelease,
  addSign,
  addVerify,
} from '@sluice/delivery/commands/verbs/release.ts';
import { addAt, addBisect, addDoctor, addTrace } from '@sluice/review/commands/verbs/follow.ts';
import { addCost, addExplain, addLs, addShow } from '@sluice/review/commands/verbs/read.ts';
import { addDiff, addParity, addPolicy, addProve, addReport, addWhatIf } from '@sluice/review/commands/verbs/review.ts';
import type { Command } from 'commander';
import { buildWith } from './base.ts';

/** Builds the command line of `sluice` with all verbs. */
export const buildProgram = (): Command =>
  buildWith({
    'Read a bundle:': [addLs, addShow, addExplain, addCost],
    'Follow a packet:': [addTrace, addAt, addBisect, addDoctor],
    'Review a change:': [addDiff, addReport, addPolicy, addProve, addWhatIf],
    'Release:': [addRelease, addSign, addVerify, addPack, addPush, addPull, addPromote, addFleet],
    'Move from kube-proxy:': [addParity, addCertify, addAdoptPlan],
  });
