import { testMutants } from '../reachability/mutation-suite.ts'

// `npm test` has the trees that are committed, and `prod` in these modes.
testMutants([
  ['dev', 'closed'],
  ['dev', 'proxy'],
  ['local', 'closed'],
  ['local', 'proxy'],
  ['pr-example', 'closed'],
  ['pr-example', 'proxy'],
])
