import { expect, it } from 'vitest'
import { showHidden } from '../../runtime/api/runs/gates/approval-binding.ts'

it.each([
  ['a right-to-left override', 'rm \u202e-rf', 'rm \\u{202e}-rf'],
  ['a carriage return', 'rm -rf /\rls', 'rm -rf /\\u{d}ls'],
  ['a no-break space', 'rm\u00a0-rf build', 'rm\\u{a0}-rf build'],
  ['a wide space', 'rm\u3000-rf build', 'rm\\u{3000}-rf build'],
  ['a letter that has no shape', 'rm -rf build\u3164', 'rm -rf build\\u{3164}'],
  ['a joiner that has no shape', 'rm -rf bu\u034fild', 'rm -rf bu\\u{34f}ild'],
  ['a variation selector', 'rm -rf build\u{e0100}', 'rm -rf build\\u{e0100}'],
  ['a tag', 'ls\u{e0041}', 'ls\\u{e0041}'],
])('%s in a command is visible in the approval request', (_what, command, shown) => {
  expect(showHidden(command)).toBe(shown)
})

it('leaves visible characters, tabs and newlines unchanged', () => {
  const command = 'printf "%s\\n" über 日本語 |\n\tsort'

  expect(showHidden(command)).toBe(command)
})
