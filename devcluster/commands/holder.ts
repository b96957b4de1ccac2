import { holdForParent, type UpOptions } from './up.ts'

await holdForParent(JSON.parse(process.argv[2] ?? '') as UpOptions)
if (process.connected) process.disconnect()
