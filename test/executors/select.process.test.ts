import { describe, expect, it } from 'vitest'
import { BackendName } from '../../contracts/backends.ts'
import { explainLadder, selectBackend } from '../../runtime/executors/select.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'

const faultOf = async (work: Promise<unknown>) => {
  const fault = await work.catch((error: unknown) => error)
  if (!(fault instanceof SandboxError)) throw new Error('no SandboxError was thrown')
  return fault
}

describe('the ladder', () => {
  it('never runs commands without isolation unless the operator allows it', async () => {
    const fault = await faultOf(selectBackend({ only: 'direct', allowDirect: false, toolRoots: [] }))

    expect(fault.code).toBe('isolation_unavailable')
    expect(fault.message).toContain('AGENTWEAVER_DIRECT=true')
  })

  it('reports the limits of direct execution', async () => {
    const { backend, detection } = await selectBackend({ only: 'direct', allowDirect: true, toolRoots: [] })

    expect(backend.name).toBe('direct')
    expect(detection.isolation).toMatchObject({ isRealIsolation: false, enforcesEgress: false })
    expect(detection.warnings.map(({ category }) => category)).toEqual([
      'no-isolation',
      'network-unrestricted',
    ])
  })

  it('rejects a backend that cannot run a command on this machine', async () => {
    const fault = await faultOf(
      selectBackend({ only: 'kubernetes-sandbox-claim', allowDirect: true, toolRoots: [] }),
    )

    expect(fault.code).toBe('isolation_unavailable')
    expect(fault.message).toContain('kubernetes-sandbox-claim')
  })

  it('explains every backend in order and selects the first that passes its proof', async () => {
    const rungs = await explainLadder({ allowDirect: true, toolRoots: [] })

    expect(rungs.map(({ name }) => name)).toEqual(['linux-bwrap', 'linux-namespaces', 'direct'])
    expect(rungs.filter(({ isChosen }) => isChosen)).toHaveLength(1)
    expect(rungs.find(({ detection }) => detection.ok)?.isChosen).toBe(true)
  })

  it('stops when its signal is aborted', async () => {
    const signal = AbortSignal.abort(new Error('enough'))

    await expect(selectBackend({ allowDirect: true, toolRoots: [], signal })).rejects.toThrow('enough')
  })

  it.each(['/', '/proc', '/run', 'relative', '/no/such/folder'])(
    'rejects the tool folder %s',
    async (root) => {
      const fault = await faultOf(
        selectBackend({ only: 'linux-bwrap', allowDirect: false, toolRoots: [root] }),
      )

      expect(fault.message).toMatch(/tool folder|not installed/)
    },
  )
})

it('rejects an unknown backend', async () => {
  const rungs = await explainLadder({ allowDirect: true, toolRoots: [] })

  const implemented = [...rungs.map(({ name }) => name), 'kubernetes-sandbox-claim']
  expect(BackendName.options.toSorted()).toEqual(implemented.toSorted())
})
