// The loader of policy packs puts a hook on `.ts` files that takes no modules; from here, Node itself reads them.
import './record.ts'
