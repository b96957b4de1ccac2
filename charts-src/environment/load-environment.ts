import { parseDocument } from 'yaml'
import type { z } from 'zod'
import { contradictions } from './contradictions.ts'
import { ENVIRONMENT_SECTIONS, type Environment } from './schema.ts'

export type LoadedEnvironment =
  | { readonly ok: true; readonly environment: Environment }
  | { readonly ok: false; readonly mistakes: readonly string[] }

const SECTION_NAMES = Object.keys(ENVIRONMENT_SECTIONS) as (keyof Environment)[]

/**
 * Parses the text of `environments/<name>.json`. Reports every mistake at once: each section is parsed on its
 * own, and rules across sections use the valid ones.
 */
export function loadEnvironment(name: string, text: string): LoadedEnvironment {
  const read = readJson(text)
  if (!read.ok) return read
  const parsed = SECTION_NAMES.map((section) => parseSection(section, read.value[section]))
  const sound = Object.fromEntries(
    parsed.flatMap(({ entry }) => (entry ? [entry] : [])),
  ) as Partial<Environment>
  const mistakes = [
    ...read.mistakes,
    ...unknownSections(read.value),
    ...parsed.flatMap((section) => section.mistakes),
    ...(sound.name !== undefined && sound.name !== name
      ? [`name: is ${sound.name}, but the file is ${name}.json`]
      : []),
    ...contradictions(sound),
  ]
  // Without mistakes every section has parsed, so the value is complete.
  return mistakes.length > 0 ? { ok: false, mistakes } : { ok: true, environment: sound as Environment }
}

interface Section {
  readonly entry?: readonly [string, unknown]
  readonly mistakes: readonly string[]
}

function parseSection(section: keyof Environment, value: unknown): Section {
  const schema: z.ZodType = ENVIRONMENT_SECTIONS[section]
  if (value === undefined && !schema.safeParse(undefined).success)
    return { mistakes: [`${section}: is missing`] }
  const result = schema.safeParse(value)
  if (result.success) return { entry: [section, result.data], mistakes: [] }
  return {
    mistakes: result.error.issues.map(({ path, message }) => `${[section, ...path].join('.')}: ${message}`),
  }
}

function unknownSections(value: Readonly<Record<string, unknown>>): string[] {
  return Object.keys(value)
    .filter((key) => !(SECTION_NAMES as string[]).includes(key))
    .map((key) => `${key}: is not a section; these are: ${SECTION_NAMES.join(', ')}`)
}

type ReadJson =
  | {
      readonly ok: true
      readonly value: Readonly<Record<string, unknown>>
      readonly mistakes: readonly string[]
    }
  | { readonly ok: false; readonly mistakes: readonly string[] }

/**
 * JSON.parse keeps the last of two equal keys. A reviewer who reads the first one would see a value that has
 * no effect.
 */
function readJson(text: string): ReadJson {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      return { ok: false, mistakes: ['the file must hold one JSON object'] }
    }
    const twice = parseDocument(text).errors.filter(({ code }) => code === 'DUPLICATE_KEY')
    const mistakes = twice.map(({ linePos }) => `line ${linePos?.[0].line ?? '?'}: a key stands twice`)
    return { ok: true, value: value as Readonly<Record<string, unknown>>, mistakes }
  } catch (error) {
    return { ok: false, mistakes: [`is not JSON: ${error instanceof Error ? error.message : String(error)}`] }
  }
}
