/** The parameters that `set` is given; undefined where it only sets options. */
export function parametersSetBy(args: readonly string[]): readonly string[] | undefined {
  const end = args.indexOf('--')
  if (end >= 0) return args.slice(end + 1)
  const first = args.findIndex((arg, i) => !/^[-+]/.test(arg) && !/^[-+]\w*o$/.test(args[i - 1] ?? ''))
  return first < 0 ? undefined : args.slice(first)
}

/** Variables that builtins set to what the text of the script does not show. */
export function variablesSetBy(name: string, args: readonly string[]): string[] {
  const operands = args.filter((arg) => /^[A-Za-z_]\w*$/.test(arg))
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
    case 'declare':
    case 'typeset':
    case 'local':
      return args.some((arg) => /^-\w*n/.test(arg)) ? args.map((arg) => arg.split('=', 1)[0] ?? '') : []
    default:
      return []
  }
}
