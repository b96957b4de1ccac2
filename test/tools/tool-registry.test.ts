import { describe, expect, it } from 'vitest'
import { SandboxSettings } from '../../contracts/policy.ts'
import { CONTROL_TOOL_NAMES, TOOL_NAMES } from '../../contracts/tools.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { MemoryToolbox } from '../fakes/memory-toolbox.ts'
import { aRegistry, callsOn, contentOf } from './tools-rig.ts'

const namesOf = (registry: ReturnType<typeof aRegistry>) =>
  registry.definitions.map(({ name }) => name).toSorted()

describe('the tool registry', () => {
  it('offers the nine tools and the control tools, each with a closed schema and a description', () => {
    const registry = aRegistry()

    expect(namesOf(registry)).toEqual([...TOOL_NAMES, ...CONTROL_TOOL_NAMES].toSorted())
    for (const { description, parameters } of registry.definitions) {
      expect(description.length).toBeGreaterThan(20)
      expect(parameters).toMatchObject({ type: 'object', additionalProperties: false })
    }
  })

  it.each([
    ['the settings disable the shell', { settings: SandboxSettings.parse({ shell_enabled: false }) }],
    ['nothing isolates commands', { shellAcceptable: false }],
    [
      'nothing isolates commands and the settings disable the shell',
      {
        settings: SandboxSettings.parse({ shell_enabled: false, direct: true }),
        shellAcceptable: false,
      },
    ],
  ])('has no run_command if %s', async (_when, options) => {
    const toolbox = new MemoryToolbox()
    const registry = aRegistry({ toolbox, ...options })

    const outcome = await callsOn(toolbox, options)('run_command', { command: 'id' })

    expect(namesOf(registry)).not.toContain('run_command')
    expect(outcome).toMatchObject({ ok: false, code: 'unknown_tool' })
    expect(toolbox.requests).toEqual([])
  })

  it.each([
    ['bash', { command: 'id' }],
    ['__proto__', {}],
    ['constructor', {}],
  ])('returns an outcome for the unknown tool %s', async (tool, args) => {
    expect(await callsOn(new MemoryToolbox())(tool, args)).toMatchObject({ ok: false, code: 'unknown_tool' })
  })

  it.each([
    ['create', { path: 'a' }, 'file_text'],
    ['create', { path: 'a', file_text: '', mode: 0o777 }, 'mode'],
    ['read_file', { path: 'a', start_line: 0 }, 'start_line'],
    ['edit', { path: 'a', old_str: '', new_str: 'x' }, 'old_str'],
    ['run_command', { command: 'a\0b' }, 'NUL'],
    ['run_command', { command: 'x'.repeat(65_537) }, '65536 bytes'],
  ])('rejects malformed arguments of %s and names the field', async (tool, args, word) => {
    const toolbox = new MemoryToolbox()

    const outcome = await callsOn(toolbox)(tool, args)

    expect(outcome).toMatchObject({ ok: false, code: 'invalid_arguments' })
    expect(outcome).toMatchObject({ message: expect.stringContaining(word) })
    expect([...toolbox.operations, ...toolbox.requests]).toEqual([])
  })

  it('does nothing after the turn was cancelled', async () => {
    const toolbox = new MemoryToolbox()

    const outcome = await callsOn(toolbox, { io: { signal: AbortSignal.abort() } })('create', {
      path: 'a',
      file_text: 'x',
    })

    expect(outcome).toMatchObject({ ok: false, code: 'cancelled' })
    expect(toolbox.files.size).toBe(0)
  })

  it('forwards the error of a lost toolbox', async () => {
    const toolbox = new MemoryToolbox()
    toolbox.exec = () => Promise.reject(new SandboxError('sandbox_lost', 'gone'))

    await expect(callsOn(toolbox)('run_command', { command: 'id' })).rejects.toThrow('gone')
  })
})

describe('the control tools', () => {
  it("pass the user's reply to the model, or report a missing reply", async () => {
    const args = { question: 'Which one?' }

    const answered = await callsOn(new MemoryToolbox(), { io: { answer: 'the second' } })(
      'ask_question',
      args,
    )
    const silent = await callsOn(new MemoryToolbox())('ask_question', args)

    expect(contentOf(answered)).toBe('the second')
    expect(silent).toMatchObject({ ok: false, code: 'no_answer' })
  })

  it('record an outcome', async () => {
    const outcome = await callsOn(new MemoryToolbox())('report_outcome', {
      outcome: 'failed',
      summary: 'because',
    })

    expect(outcome).toMatchObject({ ok: true, facts: { outcome: 'failed' } })
  })

  it('reject an intent without visible text', async () => {
    const run = callsOn(new MemoryToolbox())

    expect(await run('report_intent', { intent: '\u0007\u202e\u200b ' })).toMatchObject({ ok: false })
    expect(await run('report_intent', { intent: 'Run the tests' })).toMatchObject({ ok: true })
  })
})
