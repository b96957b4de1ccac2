/** Free text as a column keeps it: JSON's escapes without the quotes. Equal texts stay equal. */
export const toText = (text: string): string => JSON.stringify(text).slice(1, -1)

export const toOptionalText = (text: string | undefined) => (text === undefined ? null : toText(text))

export const toJson = (value: unknown): string => JSON.stringify(value ?? null)

export const toOptionalJson = (value: unknown) => (value === undefined ? null : toJson(value))

type Absent<T> = undefined extends T ? true : null extends T ? true : false
type Present<T> = { [K in keyof T as Absent<T[K]> extends false ? K : never]: T[K] } & {
  [K in keyof T as Absent<T[K]> extends true ? K : never]?: NonNullable<T[K]>
}

/** The members that have a value: a row's NULLs become absent properties. */
export const present = <T extends object>(row: T): Present<T> =>
  Object.fromEntries(
    Object.entries(row).filter(([, value]) => value !== null && value !== undefined),
  ) as Present<T>

/** The members that are to be changed: absent properties leave their columns alone. */
export const changed = <T extends object>(columns: { [K in keyof T]: T[K] | undefined }): Partial<T> =>
  Object.fromEntries(Object.entries(columns).filter(([, value]) => value !== undefined)) as Partial<T>
