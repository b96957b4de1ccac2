import { WORDS } from './marks.ts'

/** The positional parameters that `set` assigns. Undefined if it only sets options. */
export function parametersSetBy(args: readonly string[]): readonly string[] | undefined {
  const end = args.indexOf('--')
  if (end >= 0) return args.slice(end + 1)
  const first = args.findIndex((arg, i) => !/^[-+]/.test(arg) && !/^[-+]\w*o$/.test(args[i - 1] ?? ''))
  return first < 0 ? undefined : args.slice(first)
}

/** Variables that builtins set, with their values. Most values are unknown (`WORDS`). */
export function variablesSetBy(name: string, args: readonly string[]): (readonly [string, string])[] {
  if (DECLARES.test(name)) return args.flatMap((arg) => declared(arg, args))
  const operands = args.filter((arg) => /^[A-Za-z_]\w*$/.test(arg))
  return namesSetBy(name, operands, args).map((variable) => [variable, WORDS] as const)
}

const DECLARES = /^(?:declare|typeset|local|export|readonly)$/

/**
 * `declare "x=y"`. With `-n` both names become aliases of each other, which is not followed, so both are
 * unknown.
 */
function declared(arg: string, args: readonly string[]): (readonly [string, string])[] {
  const [, variable = '', value] = /^(\w+)(?:\+?=([\s\S]*))?$/.exec(arg) ?? []
  if (args.some((flag) => /^-\w*n/.test(flag)))
    return [variable, value ?? ''].filter((name) => name !== '').map((name) => [name, WORDS] as const)
  return value === undefined ? [] : [[variable, value]]
}

function namesSetBy(name: string, operands: readonly string[], args: readonly string[]): readonly string[] {
  switch (name) {
    case 'read':
      return ['REPLY', ...operands]
    case 'mapfile':
    case 'readarray':
      return ['MAPFILE', ...operands]
    case 'getopts':
      return ['OPTARG', ...operands]
    case 'printf':
    case 'wait':
      return args.flatMap(
        (arg, i) => /^-[vp](\w+)$/.exec(arg)?.[1] ?? (/^-[vp]$/.test(args[i - 1] ?? '') ? arg : []),
      )
    default:
      return []
  }
}
