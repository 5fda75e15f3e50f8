const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or directory',
  ENOTDIR: 'a part of the path is a file, where a directory is needed',
  EISDIR: 'it is a directory, where a file is needed',
  EACCES: 'permission denied',
  EPERM: 'the operation is not permitted',
  EEXIST: 'a file of this name is there already',
  EROFS: 'the file system is read-only',
  ENOSPC: 'no space is left on the device',
  EDQUOT: 'the disk quota is used up',
  ELOOP: 'its symbolic links form a loop',
  ENAMETOOLONG: 'the name is too long',
  EMFILE: 'too many files are open',
};

/** Why a system call failed, in words that go on after `Cannot read …:`. */
export function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return reasons[code] ?? (code || String(error));
}
