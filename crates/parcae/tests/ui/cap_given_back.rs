//! Budget that was taken cannot be given back by who may have spent it.

fn refill(cap: &parcae::cap::CapBudget) {
    cap.give_back(parcae::Budget::SERVICE);
    //~ error[E0624]: method `give_back` is private
    //~ label: private method
}

fn main() {}
