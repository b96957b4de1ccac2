import { testPathEngine } from './path-engine-suite.ts'

testPathEngine('openat2')
testPathEngine('walk')
