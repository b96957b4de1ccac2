import { describe, expect, it } from 'vitest'
import { commandShell } from '../../runtime/executors/command-shell.ts'

const onMachineWith = (...paths: string[]) => commandShell((path) => paths.includes(path))

describe('the command shell', () => {
  it('is bash if bash is installed', () => {
    expect(onMachineWith('/bin/sh', '/bin/bash')).toMatchObject({ name: 'bash', file: '/bin/bash' })
    expect(onMachineWith('/bin/sh', '/usr/bin/bash')).toMatchObject({ name: 'bash', file: '/usr/bin/bash' })
  })

  it('is /bin/sh otherwise', () => {
    expect(onMachineWith('/bin/sh')).toMatchObject({ name: 'sh', file: '/bin/sh' })
  })
})
