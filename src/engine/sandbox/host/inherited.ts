import { inheritedDescriptors } from '../../base/inherited.ts'

/**
 * Whether we were ourselves started with descriptors that every process we start would inherit. They do not change, and
 * looking takes as long as starting a shell. What comes later the gate finds itself.
 */
export const hasInherited = inheritedDescriptors().length > 0
