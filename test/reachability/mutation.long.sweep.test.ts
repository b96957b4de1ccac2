import { testMutants } from './mutation-suite.ts'

// The committed trees, and one of them in the modes that it could change to. `npm run test:attack` has the others.
testMutants([
  ['dev', 'fqdn'],
  ['prod', 'fqdn'],
  ['local', 'fqdn'],
  ['pr-example', 'fqdn'],
  ['prod', 'closed'],
  ['prod', 'proxy'],
])
