import type { ClusterOptions } from '../cluster-options.ts'
import { holdForParent } from './up.ts'

await holdForParent(JSON.parse(process.argv[2] ?? '{}') as ClusterOptions)
if (process.connected) process.disconnect()
