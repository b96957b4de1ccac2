import { describe, expect, it } from 'vitest'
import { createRedactor } from '../../runtime/redaction/redactor.ts'

const redactor = createRedactor({ secrets: ['correct-horse-battery'], pii: true })
const ADDRESS = 'jane.doe@mail.contoso.com'

describe("an author's address in git output", () => {
  it.each([
    `commit 8314eb4a7e7422365c0fca8314eb4a7e7422365c\nAuthor: Jane Doe <${ADDRESS}>\nDate:   Mon Nov 2\n`,
    `Author:     Jane Doe <${ADDRESS}>\nCommit:     Jane Doe <${ADDRESS}>\n`,
    `tree 8314eb4\nauthor Jane Doe <${ADDRESS}> 1700000000 +0100\ncommitter Jane <${ADDRESS}> 1700000000 +0100\n`,
    `    Fix it\n\n    Signed-off-by: Jane Doe <${ADDRESS}>\n    Co-authored-by: Jane <${ADDRESS}>\n`,
    `Reviewed-by: Jane Doe <${ADDRESS}>`,
    `    12\tJane Doe <${ADDRESS}>\n     3\tJan Ö <${ADDRESS}>\n`,
    `Jane Doe <${ADDRESS}> (12):\n      Fix it\n`,
    `8314eb4a (<${ADDRESS}> 2026-11-02 10:00:00 +0100  1) import x\n`,
    `^8314eb4 src/app.ts (<${ADDRESS}>  2026-11-02 10:00:00 +0100  1) import x\n`,
    `author-mail <${ADDRESS}>\nauthor-time 1700000000\ncommitter-mail <${ADDRESS}>\n`,
  ])('is kept in %j for every chunking', (text) => {
    expect(redactor.text(text)).toBe(text)
    for (let cut = 0; cut <= text.length; cut++) {
      const stream = redactor.stream()

      expect(stream.push(text.slice(0, cut)) + stream.push(text.slice(cut)) + stream.end()).toBe(text)
    }
  })
})

describe('any other address', () => {
  it.each([
    `write to Author Jane <${ADDRESS}> now`,
    `From: Jane Doe <${ADDRESS}>`,
    `see Author: Jane <${ADDRESS}>`,
    `Author: ${ADDRESS}`,
    `Author: Jane <x> ${ADDRESS}`,
    `Author: Jane\n<${ADDRESS}>`,
    `Author: <a> <${ADDRESS}>`,
    `Jane Doe <${ADDRESS}>`,
    `Jane Doe <${ADDRESS}> (twelve):`,
    `"author": "Jane <${ADDRESS}>"`,
    `Author: Jane <${ADDRESS}, joe@contoso.com>`,
    `Author: ${'x'.repeat(200)} <${ADDRESS}>`,
    `Author: ${ADDRESS} <jane@contoso.com>`,
  ])('is redacted in %j', (text) => {
    expect(redactor.text(text)).toContain('[REDACTED:email]')
    expect(redactor.text(text)).not.toContain(ADDRESS)
  })
})

describe("a secret in an author's line", () => {
  const token = `ghp_${'aB3dE6'.repeat(6)}`

  it.each([
    `Author: ${token} <${ADDRESS}>`,
    `Author: Jane <${token}@contoso.com>`,
    `Author: Jane <correct-horse-battery@contoso.com>`,
    `Author: correct-horse-battery <${ADDRESS}>`,
    `Signed-off-by: password=hunter2-correct <${ADDRESS}>`,
    `Author: postgres://app:hunter2-correct@db <${ADDRESS}>`,
    `Author: 10.20.30.40 <${ADDRESS}>`,
  ])('is redacted in %j', (text) => {
    expect(redactor.text(text)).not.toMatch(/ghp_|correct|10\.20/)
  })
})
