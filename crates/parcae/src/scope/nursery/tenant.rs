//! The tenant that a nursery has opened (`sched::run_queue::tenants`).

use crate::sched::Shared;
use crate::sched::task::TenantIndex;
use parcae_core::fair::Weight;
use std::sync::Arc;

/// An open tenant of a nursery; dropping it closes the tenant.
pub(crate) struct OpenTenant {
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: TenantIndex,
}

impl OpenTenant {
    /// Changes its weight.
    pub(crate) fn reweight(&self, weight: Weight) {
        self.shared.queues.reweight_tenant(self.index, weight);
    }
}

impl Drop for OpenTenant {
    fn drop(&mut self) {
        self.shared.queues.close_tenant(self.index);
    }
}
