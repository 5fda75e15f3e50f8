import type { Family } from '../rulefile.ts';
import {
  isChainName,
  isComment,
  isInterface,
  isJumpTarget,
  readBits,
  readChance,
  readEndpoint,
  readMark,
  readNetwork,
  readNumber,
  readStates,
} from './parts.ts';
import { type Match, rejectReasons, type Rule, type RuleError, type Target, type TransportProtocol } from './rule.ts';
import { splitWords, type Word } from './words.ts';

