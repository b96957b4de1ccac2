import base from './vitest.config.ts'
const b: any = base
for (const p of b.test.projects) p.test.setupFiles = [...(p.test.setupFiles ?? []), '/tmp/speed24/cpu.setup.ts']
export default b
