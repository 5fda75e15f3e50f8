const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or directory',
  ENOTDIR: 'a part of the path is not a directory',
  EISDIR: 'it is a directory, not a file',
  EACCES: 'permission denied',
  EPERM: 'operation not permitted',
  EEXIST: 'a file of this name already exists',
  EROFS: 'read-only file system',
  ENOSPC: 'no space left on device',
  EDQUOT: 'disk quota exceeded',
  ELOOP: 'too many levels of symbolic links',
  ENAMETOOLONG: 'file name too long',
  EMFILE: 'too many open files',
  EBUSY: 'it is in use',
  EIO: 'input or output error',
};

/** Whether an error has a reason in words. */
export const isFileError = (error: unknown): error is NodeJS.ErrnoException =>
  error instanceof Error && 'code' in error && Object.hasOwn(reasons, String(error.code));

/** Why a system call failed, to follow `Cannot read …: `; with the name of an entry that was opened by its directory. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code = '', path = '', message }: NodeJS.ErrnoException = error;
  const entry = /^\/proc\/self\/fd\/\d+\/(.+)$/.exec(path)?.[1];
  return `${entry === undefined ? '' : `${entry}: `}${reasons[code] ?? message}`;
}
