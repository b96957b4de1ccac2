import type * as z from 'zod'
import { SandboxError } from '../kit/errors.ts'
import type { Json } from './columns.ts'
import type { Tables } from './schema.ts'

type Table = keyof Tables
type Column<T extends Table> = keyof Tables[T] & string

/**
 * Reads the columns of a row. A database can be edited, restored in part, or damaged, so the type of a column is checked when
 * it is read. Every method throws `store_damaged` for a value that this program cannot have written.
 */
export class RowReader<T extends Table> {
  readonly #table: T
  readonly #row: object

  constructor(table: T, row: object) {
    this.#table = table
    this.#row = row
  }

  /** Text that is stored as it is. */
  plain(column: Column<T>): string {
    const value = this.#value(column)
    if (typeof value !== 'string') throw this.#damaged(column)
    return value
  }

  optionalPlain(column: Column<T>): string | undefined {
    return this.#isNull(column) ? undefined : this.plain(column)
  }

  /** Text that is stored JSON-escaped. */
  text(column: Column<T>): string {
    const text: unknown = this.#parsed(column, `"${this.plain(column)}"`)
    if (typeof text !== 'string') throw this.#damaged(column)
    return text
  }

  optionalText(column: Column<T>): string | undefined {
    return this.#isNull(column) ? undefined : this.text(column)
  }

  integer(column: Column<T>): number {
    const value = this.#value(column)
    if (typeof value !== 'number' || !Number.isSafeInteger(value)) throw this.#damaged(column)
    return value
  }

  flag(column: Column<T>): boolean {
    const value = this.integer(column)
    if (value !== 0 && value !== 1) throw this.#damaged(column)
    return value === 1
  }

  oneOf<Value extends string>(column: Column<T>, { options }: { options: readonly Value[] }): Value {
    const value = this.plain(column)
    const found = options.find((option) => option === value)
    if (found === undefined) throw this.#damaged(column)
    return found
  }

  optionalOneOf<Value extends string>(
    column: Column<T>,
    choice: { options: readonly Value[] },
  ): Value | undefined {
    return this.#isNull(column) ? undefined : this.oneOf(column, choice)
  }

  json<Value>(column: Column<T>, schema: z.ZodType<Value>): Value {
    const parsed = schema.safeParse(this.anyJson(column))
    if (!parsed.success) throw this.#damaged(column)
    return parsed.data
  }

  optionalJson<Value>(column: Column<T>, schema: z.ZodType<Value>): Value | undefined {
    return this.#isNull(column) ? undefined : this.json(column, schema)
  }

  /** JSON whose form the store does not know. */
  anyJson(column: Column<T>): Json {
    return this.#parsed(column, this.plain(column))
  }

  optionalAnyJson(column: Column<T>): Json | undefined {
    return this.#isNull(column) ? undefined : this.anyJson(column)
  }

  #value(column: string): unknown {
    return Reflect.get(this.#row, column)
  }

  #isNull(column: string): boolean {
    return this.#value(column) === null
  }

  #parsed(column: string, json: string): Json {
    try {
      return JSON.parse(json)
    } catch {
      // biome-ignore lint/style/useErrorCause: the message of a syntax error quotes the value, which may be a secret.
      throw this.#damaged(column)
    }
  }

  /** Without the value, which may be a secret. */
  #damaged(column: string): SandboxError {
    return damaged(this.#table, column)
  }
}

export const damaged = (table: Table, column: string): SandboxError =>
  new SandboxError(
    'store_damaged',
    `The store is damaged: the column ${column} of a row of the table ${table} cannot be read. Restore a backup of the store.`,
  )
