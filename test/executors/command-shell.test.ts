import { describe, expect, it } from 'vitest'
import { commandShell } from '../../runtime/executors/command-shell.ts'

const onMachineWith = (...paths: string[]) => commandShell((path) => paths.includes(path))

describe('the shell of commands', () => {
  it('is bash where it is installed', () => {
    expect(onMachineWith('/bin/sh', '/bin/bash')).toMatchObject({ name: 'bash', file: '/bin/bash' })
    expect(onMachineWith('/bin/sh', '/usr/bin/bash')).toMatchObject({ name: 'bash', file: '/usr/bin/bash' })
  })

  it('is /bin/sh where there is no bash', () => {
    expect(onMachineWith('/bin/sh')).toMatchObject({ name: 'sh', file: '/bin/sh' })
  })
})
