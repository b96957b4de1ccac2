import { expect, it } from 'vitest'
import type { PlanStep } from '../../../contracts/agents.ts'
import { scripted } from './decisions.ts'
import { aConfiguredHost, collect, hasFile, never, type Subject, textOf, turnEnded } from './host.ts'

const say = (text: string): PlanStep => ({ kind: 'say', text })
const shell = (command: string): PlanStep => ({ kind: 'tool', tool: 'run_command', arguments: { command } })

export function turnCases(subject: Subject): void {
  it('starts a turn once per id, and rejects the id with another prompt', async () => {
    const host = await aConfiguredHost(subject, {
      agent: scripted([shell('echo x >> count.txt')], [say('a second turn')]),
    })

    await Promise.all([1, 2, 3].map(() => host.client.turns.start({ id: 't1', prompt: 'go' }, never)))
    const events = await collect(host, turnEnded)
    await host.client.turns.start({ id: 't1', prompt: 'go' }, never)
    const other = host.client.turns.start({ id: 't1', prompt: 'something else' }, never)

    await expect(other).rejects.toThrow()
    expect(await textOf(host, 'count.txt')).toBe('x\n')
    expect(events.filter(({ event }) => event.type === 'turn.started')).toHaveLength(1)
    const ofTurns = events.filter(({ event }) => event.type !== 'sandbox.warning')
    expect(ofTurns.every(({ taskId }) => taskId === 't1')).toBe(true)
  })

  it('rejects a second turn while one is running', async () => {
    const host = await aConfiguredHost(subject, { agent: scripted([shell('true')], [say('second')]) })
    await host.client.turns.start({ id: 't1', prompt: 'go' }, never)

    const second = host.client.turns.start({ id: 't2', prompt: 'go' }, never)

    await expect(second).rejects.toThrow()
    await collect(host, turnEnded)
    await host.client.turns.start({ id: 't2', prompt: 'go' }, never)
  })

  it('does not end a turn when its caller disconnects', async () => {
    const host = await aConfiguredHost(subject, { agent: scripted([shell('echo done > done.txt')]) })
    const leaving = new AbortController()

    await host.client.turns.start({ id: 't1', prompt: 'go' }, leaving.signal)
    leaving.abort()
    await collect(host, turnEnded)

    expect(await hasFile(host, 'done.txt')).toBe(true)
  })

  it('cancels a turn together with its running command', async () => {
    const host = await aConfiguredHost(subject, {
      agent: scripted([shell('echo x; sleep 300; echo late > late.txt')]),
    })
    await host.client.turns.start({ id: 't1', prompt: 'go' }, never)
    const seen = await collect(host, ({ event }) => event.type === 'command.output')

    await host.client.turns.cancel('t1', never)
    const events = await collect(host, turnEnded, { after: seen.length })

    expect(events.at(-1)?.event).toMatchObject({
      type: 'turn.ended',
      data: { turnId: 't1', state: 'cancelled' },
    })
    expect(await hasFile(host, 'late.txt')).toBe(false)
  })
}
