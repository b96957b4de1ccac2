import type { Hunk } from './patch-model.ts'
import type { TextLine } from './text-lines.ts'

type Search = { readonly file: readonly TextLine[]; readonly hunk: Hunk; readonly from: number }
type Place =
  | { readonly ok: true; readonly at: number; readonly length: number }
  | { readonly ok: false; readonly code: 'no_match' | 'not_unique'; readonly message: string }

/**
 * Locates a hunk's old lines at or after line `from` (zero-based): at the line in the hunk header, otherwise at the
 * next match. Several matches are an error unless the hunk has anchors.
 */
export function locateHunk({ file, hunk, from }: Search): Place {
  const anchored = afterAnchors({ file, hunk, from })
  if (!anchored.ok) return anchored
  const old = oldLinesOf(hunk)
  if (old.length === 0) return insertionPlace({ file, hunk, from: anchored.at })
  const expected = expectedPlace(file, hunk, old)
  if (expected !== undefined && expected >= from && matchesAt(file, old, expected))
    return found(expected, old)
  const places = hunk.atEnd ? [] : placesOf(file, old, anchored.at)
  const [first] = places
  if (first === undefined) return noMatch(file, old, anchored.at)
  return places.length === 1 || hunk.anchors.length > 0 ? found(first, old) : notUnique(places)
}

/** The position that the hunk itself states. */
function expectedPlace(file: readonly TextLine[], hunk: Hunk, old: readonly OldLine[]): number | undefined {
  if (hunk.atEnd) return file.length - old.length
  return hunk.oldStart === undefined ? undefined : hunk.oldStart - 1
}

function placesOf(file: readonly TextLine[], old: readonly OldLine[], from: number): number[] {
  const places: number[] = []
  for (let at = from; at + old.length <= file.length; at += 1) if (matchesAt(file, old, at)) places.push(at)
  return places
}

function notUnique(places: readonly number[]): Place {
  const lines = places.slice(0, 5).map((at) => at + 1)
  return {
    ok: false,
    code: 'not_unique',
    message: `its lines occur ${places.length} times (lines ${lines.join(', ')}): add context lines to tell them apart`,
  }
}

type OldLine = { readonly text: string; readonly noNewline: boolean }

const oldLinesOf = (hunk: Hunk): OldLine[] =>
  hunk.lines
    .filter((line) => line.kind !== 'add')
    .map((line) => ({ text: line.text.replace(/\r$/, ''), noNewline: line.noNewline }))

const found = (at: number, old: readonly OldLine[]): Place => ({ ok: true, at, length: old.length })

const matchesAt = (file: readonly TextLine[], old: readonly OldLine[], at: number): boolean =>
  at >= 0 &&
  at + old.length <= file.length &&
  old.every(({ text, noNewline }, offset) => {
    const line = file[at + offset]
    return line?.text === text && (!noNewline || line.end === '')
  })

/** Each anchor is looked for after the one before it; blanks around it do not count, it is only a signpost. */
function afterAnchors({ file, hunk, from }: Search): Place {
  let at = from
  for (const anchor of hunk.anchors) {
    const index = file.findIndex((line, position) => position >= at && line.text.trim() === anchor)
    if (index < 0) return { ok: false, code: 'no_match', message: `no line "${anchor}" after line ${at}` }
    at = index + 1
  }
  return { ok: true, at, length: 0 }
}

/** A hunk that only adds: at its line, after its anchor, or at the end of the file. */
function insertionPlace({ file, hunk, from }: Search): Place {
  if (hunk.oldStart !== undefined) {
    const at = hunk.oldStart - 1
    if (at >= from && at <= file.length) return { ok: true, at, length: 0 }
    return { ok: false, code: 'no_match', message: `the file has no line ${at} to insert after` }
  }
  return { ok: true, at: hunk.anchors.length > 0 && !hunk.atEnd ? from : file.length, length: 0 }
}

/** Describes the closest match of the hunk, so that the model can see which line differs. */
function noMatch(file: readonly TextLine[], old: readonly OldLine[], from: number): Place {
  let best = { at: -1, same: 0 }
  for (let at = from; at < file.length; at += 1) {
    const different = old.findIndex((line, offset) => file[at + offset]?.text !== line.text)
    const same = different < 0 ? old.length : different
    if (same > best.same) best = { at, same }
  }
  const wanted = old[best.same]?.text ?? old[0]?.text ?? ''
  const where =
    best.same === 0
      ? `no line "${wanted}" after line ${from}`
      : `${best.same} of its lines are at line ${best.at + 1}, but line ${best.at + best.same + 1} is not "${wanted}"`
  return {
    ok: false,
    code: 'no_match',
    message: `its lines are not in the file: ${where}. Read the file again`,
  }
}
