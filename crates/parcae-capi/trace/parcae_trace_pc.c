/* Yield checks for C that knows nothing of them.
 *
 * GCC and clang call __sanitizer_cov_trace_pc at each branch of what they compile with
 * -fsanitize-coverage=trace-pc. Link this file, compiled without that option, and each of these calls
 * is a yield check: the task lets others run, pays for what it does, and is ended where it is when
 * it is cancelled or has used up its budget. Outside of tasks it does nothing.
 */
#include <parcae.h>

void __sanitizer_cov_trace_pc(void);

void __sanitizer_cov_trace_pc(void)
{
    parcae_status status = parcae_yield_check(parcae_meter_get());
    if (status != PARCAE_OK) {
        parcae_task_exit(status);
    }
}
